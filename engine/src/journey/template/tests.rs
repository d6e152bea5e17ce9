use super::*;
use crate::job::{Feed, Job};
use serde_json::json;

/// A job with two feeds and nothing else of interest.
fn feeds() -> Vec<Feed> {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("people.csv"), "name,city\nAda,London\nGrace,New York\n")
        .expect("written");
    let rows = "{\"id\": 7, \"on\": true, \"tags\": [\"a\", 1], \"who\": {\"name\": \"x\"}, \"note\": \"a \\\"b\\\"\"}\n";
    std::fs::write(dir.path().join("devices.jsonl"), rows).expect("written");
    let job = json!({
        "version": 1, "run_id": "r", "output": "o",
        "feeds": {"people": {"file": "people.csv"}, "device": {"file": "devices.jsonl", "order": "random"}},
        "targets": {"a": {"instances": [{"name": "a", "url": "http://h"}]}},
        "workloads": [{"name": "w", "timeout_us": 1,
            "load": {"model": "closed", "stages": [{"from_users": 1, "to_users": 1, "duration_us": 1}]},
            "journey": {"steps": [{"request": {"name": "s", "path": "/"}}]}}],
    });
    Job::from_json_in(&job.to_string(), dir.path()).unwrap_or_else(|p| panic!("{p:?}")).feeds
}

/// Somewhere to render for.
pub struct Stage {
    templates: Templates,
    scope: Arc<Scope>,
    pub session: Session,
}

impl Stage {
    pub fn new() -> Self {
        let mut scope = Scope::new("r1", true, &feeds());
        scope.add("page", Name::Constant(Value::from(20))).expect("free");
        scope.add("secure", Name::Constant(Value::from(true))).expect("free");
        for (slot, name) in ["token", "list", "price", "unset"].into_iter().enumerate() {
            scope.add(name, Name::Slot(slot)).expect("free");
        }
        let mut session = Session { rows: vec![1, 0], ..Session::default() };
        session.set(0, Value::from("t \"1\""));
        session.set(1, from_json(&json!(["a", 2, null])));
        session.set(2, Value::from(2.0));
        Self { templates: Templates::default(), scope: Arc::new(scope), session }
    }

    pub fn text(&mut self, source: &str) -> Result<Text, String> {
        self.templates.text(source, &self.scope)
    }

    pub fn with<R>(&mut self, seed: u64, render: impl FnOnce(&mut Frame<'_>) -> R) -> R {
        let rng = &mut Rng::from_parts(&[seed]);
        let Self { templates, scope, session } = self;
        render(&mut Frame { templates, scope, user: 7, iteration: 2, session, rng })
    }

    pub fn write(&mut self, text: &Text, seed: u64) -> Result<String, String> {
        let mut out = String::new();
        self.with(seed, |frame| text.write(frame, &mut out)).map(|()| out)
    }

    pub fn render(&mut self, source: &str, seed: u64) -> Result<String, String> {
        let text = self.text(source)?;
        self.write(&text, seed)
    }

    /// By minijinja, whatever the source.
    fn machine(&mut self, source: &str) -> Text {
        let scope = Arc::clone(&self.scope);
        Text::Template(self.templates.compile(source, &scope, TEXT).expect("compiles").0)
    }
}

#[test]
fn variables_feeds_and_captures_are_rendered() {
    let cases = [
        ("plain {% if %}", "plain {% if %}"),
        ("{{user}}/{{ iteration }}/{{arrival}}/{{run_id}}\n", "7/2/7/r1\n"),
        ("{{ people.name }} of {{ people.city }}", "Grace of New York"),
        ("{{ device.id + 1 }} {{ device.on }} {{ device.tags }}", "8 true [\"a\",1]"),
        ("{{ device.who.name }} {{ device.note }} {{ device['id'] }}", "x a \"b\" 7"),
        ("{{ page }} {{ secure }} {{ price }} {{ list }}", "20 true 2.0 [\"a\",2,null]"),
        ("{{ token | upper }}{{- user -}} {{ list | length }}", "T \"1\"73"),
        ("{% for x in list %}{{ x }};{% endfor %}{{ base64(run_id) }}", "a;2;null;cjE="),
        ("{{ '}}' }}{{ {'a': {'b': 1}} }}", "}}{\"a\":{\"b\":1}}"),
        ("{{ 'set' if unset is defined else 'not' }}", "not"),
    ];
    let mut stage = Stage::new();
    for (source, expected) in cases {
        assert_eq!(stage.render(source, 1).as_deref(), Ok(expected), "{source}");
    }
}

/// The short way and the template machine draw and write the same.
#[test]
fn both_ways_give_the_same() {
    let sources = [
        "/{{ user }}/{{ iteration }}/{{ arrival }}/{{ run_id }}?p={{page}}&s={{ secure }}",
        "{{ random_int(1, 9) }} {{ random_int(-5, 5) }} {{ random_int(-9223372036854775808, 9223372036854775807) }}",
        "{{ random_float(0, 1) }} {{ random_float(-2.5, 1e0) }} {{ random_float(1.5, 2.5) }}",
        "{{ random_hex(3) }}-{{ random_hex(40) }}-{{ random_string(12) }}-{{ random_uuid() }}",
        "{{ random_choice(['a', \"b c\", 3, -4]) }} {{ random_choice(list) }} {{ random_choice([1]) }}",
        "{{ people.name }}{{ people.city }}{{ device.id }}{{ device.on }}{{ device.tags }}{{ device.note }}",
        "{{ token }} {{ list }} {{ price }} {{ people . name }}",
        "a } b }} c {{ user }}}",
    ];
    let mut stage = Stage::new();
    for source in sources {
        let short = stage.text(source).expect("compiles");
        let machine = stage.machine(source);
        for seed in 0..40 {
            let expected = stage.write(&machine, seed);
            assert!(expected.is_ok(), "{source}: {expected:?}");
            assert_eq!(stage.write(&short, seed), expected, "{source}");
        }
    }
    let count = sources.iter().filter(|s| matches!(stage.text(s), Ok(Text::Simple(_)))).count();
    assert_eq!(count, 6, "the short way is taken");
}

#[test]
fn a_single_expression_keeps_its_type() {
    let cases = [
        ("{{ user }}", json!(7)),
        ("{{ page }}", json!(20)),
        ("{{ page + 1 }}", json!(21)),
        ("{{ secure }}", json!(true)),
        ("{{ not secure }}", json!(false)),
        ("{{ list }}", json!(["a", 2, null])),
        ("{{ device.tags }}", json!(["a", 1])),
        ("{{ people.name }}", json!("Grace")),
        ("{{ people.name | upper }}", json!("GRACE")),
        ("{{ random_int(3, 3) }}", json!(3)),
        ("{{ random_choice([5]) }}", json!(5)),
        ("{{ {'a': 1}['a'] }}", json!(1)),
        ("{{ none }}", json!(null)),
        ("{{ user }} ", json!("7 ")),
        ("{{ user }}{{ user }}", json!("77")),
    ];
    let mut stage = Stage::new();
    for (source, expected) in cases {
        let text = stage.text(source).expect("compiles");
        let value = stage.with(1, |frame| text.value(frame)).expect("renders");
        let exact = expected.is_string() || source.ends_with("}}");
        assert!(exact && serde_json::to_value(&value).expect("JSON") == expected, "{source}: {value:?}");
    }
}

#[test]
fn conditions_hold_or_not() {
    let cases = [
        ("{{ iteration > 1 }}", true),
        ("{{ iteration > 2 }}", false),
        ("{{ user % 7 }}", false),
        ("{{ secure }}", true),
        ("{{ token }}", true),
        ("{{ unset }}", false),
        ("{{ unset is defined }}", false),
        ("{{ '' }}", false),
        ("{{ 'false' }}", false),
        ("{{ 'None' }}", false),
        ("{{ '0' }}", false),
        ("{{ [] }}", false),
        ("{{ none }}", false),
        ("{{ price }}", true),
        ("x{{ user }}", true),
        ("{{ iteration - 2 }}{{ '' }}", false),
    ];
    let mut stage = Stage::new();
    for (source, expected) in cases {
        let text = stage.text(source).expect("compiles");
        assert_eq!(stage.with(1, |frame| text.holds(frame)), Ok(expected), "{source}");
    }
}

/// To minijinja every text is above every number.
#[test]
fn texts_and_numbers_have_no_order() {
    let mut stage = Stage::new();
    stage.session.set(0, Value::from("2"));
    for (source, expected) in [
        ("{{ token | int > 3 }}", false),
        ("{{ token | int < 3 }}", true),
        ("{{ (token | float) * 2 >= 4.0 and not user < 7 }}", true),
        ("{{ 1 < iteration <= 2 < user }}", true),
        ("{{ 1 < iteration == 3 }}", false),
        ("{{ 'b' > 'a' }}", true),
        ("{{ [user > 3, (iteration > 5)][0] }}", true),
        ("{{ {'>': iteration >= 2}['>'] }}", true),
        ("{{ 'x > 3' if -user < 0 else '' }}", true),
        ("{% if token | int > 3 %}1{% elif iteration > 1 %}2{% endif %}{{ '' }}", true),
        ("{{ token == 2 }}", false),
        ("{{ user in [7] and user is not defined or iteration > 1 }}", true),
    ] {
        let text = stage.text(source).unwrap_or_else(|e| panic!("{source}: {e}"));
        assert_eq!(stage.with(1, |frame| text.holds(frame)), Ok(expected), "{source}");
    }
    for source in [
        "{{ token > 3 }}",
        "{{ 3 <= token }}",
        "{{ (token) < (3 + 1) }}",
        "{{ 1 < user < token }}",
        "{{ none > 1 }}",
    ] {
        let told = stage.text(source).and_then(|text| stage.with(1, |frame| text.holds(frame)));
        assert!(told.as_ref().is_err_and(|e| e.contains("| int")), "{source}: {told:?}");
    }
    let told = stage.text("{{ people.name > 3 }}").expect_err("seen by check");
    assert!(told.contains("string > number"), "{told}");
    assert!(stage.text("{{ user < 3 in [true] }}").is_err());
    assert!(stage.text("{{ __compare(1, '<', 2) }}{{ user }}").is_err());
}

#[test]
fn random_draws_have_their_bounds_and_forms() {
    let mut stage = Stage::new();
    for seed in 0..200 {
        let number: i64 =
            stage.render("{{ random_int(-2, 2) }}", seed).expect("renders").parse().expect("a number");
        assert!((-2..=2).contains(&number));
        let share: f64 =
            stage.render("{{ random_float(2, 3) }}", seed).expect("renders").parse().expect("a number");
        assert!((2.0..3.0).contains(&share));
        let uuid = stage.render("{{ random_uuid() }}", seed).expect("renders");
        let groups: Vec<_> = uuid.split('-').map(str::len).collect();
        assert_eq!(groups, [8, 4, 4, 4, 12]);
        assert!(uuid.as_bytes()[14] == b'4' && b"89ab".contains(&uuid.as_bytes()[19]), "{uuid}");
        let text = stage.render("{{ random_string(9) }}{{ random_hex(5) }}", seed).expect("renders");
        assert!(text.len() == 14 && text.bytes().all(|b| b.is_ascii_alphanumeric()), "{text}");
    }
    let now: u64 = stage.render("{{ now_ms() }}", 0).expect("renders").parse().expect("a number");
    assert!(now > 1_700_000_000_000);
}

#[test]
fn seeds_reproduce() {
    let source = "{{ random_int(1, 1000000) }} {{ random_hex(8) }}";
    let mut stage = Stage::new();
    assert_eq!(stage.render(source, 4), stage.render(source, 4));
    assert_ne!(stage.render(source, 4), stage.render(source, 5));
}

#[test]
fn what_cannot_work_is_refused() {
    let bad = [
        ("{{ usr }}", "unknown: usr; known: arrival, device"),
        ("{{ people.nmae }}", "unknown: people.nmae; columns of people: name, city"),
        ("{{ __keep(1) }}", "unknown: __keep"),
        ("{{ user", "template"),
        ("{{ random_int(5, 1) }}", "the first bound, 5, is above the second, 1"),
        ("{{ random_float(5, 1) }}", "the first bound, 5, is above the second, 1"),
        ("{{ random_choice([]) }}", "an empty list"),
        ("{{ random_choice('abc') }}", "string where a list"),
        ("{{ random_choice(people.name) }}", "string where a list"),
        ("{{ nothing() }}", "unknown: nothing"),
        ("{{ user | nothing }}", "filter"),
        ("{{ user.name }}", "undefined"),
        ("{% for i in range(99999) %}{% for j in range(99999) %}{{ j }}{% endfor %}{% endfor %}", "fuel"),
        ("{{ random_hex(99999999) }}", "at most 1048576"),
        ("{{ random_string(1048577) }}", "at most 1048576"),
        ("{% include 'x' %}{{ user }}", "unknown block: include"),
    ];
    let mut stage = Stage::new();
    for (source, expected) in bad {
        let error = stage.render(source, 1).expect_err(source);
        assert!(error.contains(expected), "{source}: {error}");
    }
    let error = stage.render("{{ unset }}", 1).expect_err("not captured");
    assert!(error.contains("unset: no capture has set it"), "{error}");
    let closed = Arc::new(Scope::new("r", false, &[]));
    let error = Templates::default().text("{{ arrival }}", &closed).expect_err("closed");
    assert!(error.contains("unknown: arrival"), "{error}");
}

#[test]
fn names_are_taken_once() {
    let mut scope = Scope::new("r", false, &feeds());
    scope.add("page", Name::Constant(Value::from(1))).expect("free");
    scope.add("token", Name::Slot(0)).expect("free");
    scope.add("token", Name::Slot(1)).expect("several steps may capture it");
    assert!(matches!(scope.get("token"), Some(Name::Slot(0))));
    let taken = [
        ("user", "every template"),
        ("run_id", "every template"),
        ("arrival", "open load"),
        ("random_int", "a function"),
        ("people", "a feed"),
        ("page", "a variable of the journey"),
        ("a-b", "no name for a variable"),
        ("1a", "no name"),
        ("", "no name"),
        ("__keep", "no name"),
        ("not", "no name"),
    ];
    for (name, expected) in taken {
        let error = scope.add(name, Name::Slot(5)).expect_err(name);
        assert!(error.contains(expected), "{name}: {error}");
    }
    assert!(scope.add("token", Name::Constant(Value::from(1))).is_err());
}
