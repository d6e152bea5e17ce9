use super::tests::Stage;

#[test]
fn what_is_of_use_works_as_ever() {
    let cases = [
        (
            "{{ user * 2 * page }} {{ -user * (page + 1) ** 2 }} {{ user|int * page|abs - 1 }}",
            "280 -3087 139",
        ),
        ("{{ 1.5 * [2, 3][1] * (iteration) }}{{ secure * 3 }}", "9.03"),
        ("{{ list | map('string') | join(',') }}", "a,2,None"),
        ("{{ '%05d/%s' | format(user, run_id) }}", "00007/r1"),
        (
            "{% set id = random_hex(4) %}{{ id == id }}{% set n = user + 1 if user > 3 else 0 %}{{ n }}",
            "true8",
        ),
        (
            "{% if unset is defined %}{{ unset }}{% else %}-{% endif %}{{ [none] | first | default('x', true) }}",
            "-x",
        ),
        ("{{ 'a-b-c' | replace('-', '**') | upper }}{{ {'*': 1}['*'] }}", "A**B**C1"),
        ("{{ list | tojson }}{% for x in list if x is string %}{{ x }};{% endfor %}", "[\"a\", 2, null]a;"),
        ("{% for a, b in [[1, 2], [3, 4]] %}{{ a * b }} {% endfor %}{{ list | length * 2 }}", "2 12 6"),
        (
            "{{ random_choice(*[[5]]) }}{% raw %}{{ * | }}{% endraw %}{{ people.name | length }}",
            "5{{ * | }}5",
        ),
    ];
    let mut stage = Stage::new();
    for (source, expected) in cases {
        assert_eq!(stage.render(source, 1).as_deref(), Ok(expected), "{source}");
    }
}

/// Each of these would take gigabytes, or more than there is.
#[test]
fn what_grows_without_end_is_refused() {
    let often = |step: &str| step.repeat(45);
    let bytes = "more than 67108864 bytes";
    let cases = [
        (format!("{{% set a = 'x' %}}{}{{{{ a | length }}}}", often("{% set a = a ~ a %}")), bytes),
        (format!("{{% set a = [1] %}}{}{{{{ a | length }}}}", often("{% set a = a + a %}")), bytes),
        (format!("{{% set a = [1] %}}{}{{{{ a | length }}}}", often("{% set a = [a, a] %}")), bytes),
        (
            format!(
                "{{% set a = {{'k': 1}} %}}{}{{{{ a | length }}}}",
                often("{% set a = {'k': a, 'l': a} %}")
            ),
            bytes,
        ),
        (format!("{{{{ 'x' {} }}}}", often(" | replace('x', 'xxxx')")), bytes),
        (format!("{{{{ 'xx' {} }}}}", often(" | replace('', 'xxxx')")), bytes),
        (format!("{{{{ 'xyz' {} }}}}", often(" | list | join('xxxx')")), bytes),
        (format!("{{% for i in range(30000) %}}{}{{{{ i }}}}{{% endfor %}}", "x".repeat(5000)), bytes),
        ("{% for i in range(20000) %}{{ range(9000) | length }}{% endfor %}".into(), bytes),
        ("{{ 'x' * 100000000 }}".into(), "string in a multiplication: only numbers are multiplied"),
        ("{{ (100000000 * [user]) | length }}".into(), "sequence in a multiplication"),
        ("{{ (run_id) * user }}".into(), "string in a multiplication"),
        ("{{ user * (run_id ~ '') }}".into(), "string in a multiplication"),
        ("{{ '%99999999d' | format(user) }}".into(), "format: widths are written out and at most 9999"),
        ("{{ '%*d' | format(99999999, user) }}".into(), "format: widths"),
        ("{{ [user] | batch(99999999, 'x') }}".into(), "filter"),
        ("{{ 'a' | indent(99999999) }}".into(), "filter"),
        ("{{ list | tojson(99999999) }}{{ user | tojson(99999999) }}".into(), "too many arguments"),
        ("{% set a %}x{% endset %}{{ a }}".into(), "a set block binds one name"),
        ("{% set a, b = 1, 2 %}{{ a }}".into(), "a set block binds one name"),
        ("{% set n.a = 1 %}{{ user }}".into(), "a set block binds one name"),
        ("{% set a = namespace() %}{{ user }}".into(), "unknown: namespace"),
        ("{% with a = user %}{{ a }}{% endwith %}".into(), "unknown block: with; known: for, if, set, raw"),
        ("{% filter upper %}{{ user }}{% endfilter %}".into(), "unknown block: filter"),
        ("{% for x in [1] recursive %}{{ x }}{% endfor %}".into(), "a loop cannot be recursive"),
        ("{{ __weigh(user) }}".into(), "unknown: __weigh"),
        ("{{ user | __factor }}".into(), "unknown: __factor"),
    ];
    let mut stage = Stage::new();
    for (source, expected) in cases {
        let error = stage.render(&source, 1).expect_err(&source);
        assert!(error.contains(expected), "{source}: {error}");
    }
    let nested = "{% for a in [a ~ a] %}".repeat(45) + "{{ user }}" + &"{% endfor %}".repeat(45);
    let error = stage.render(&("{% set a = 'x' %}".to_owned() + &nested), 1).expect_err("doubles");
    assert!(error.contains(bytes), "{error}");
}

/// What one rendering has taken is there for the next.
#[test]
fn every_rendering_has_all_of_the_allowance() {
    let mut stage = Stage::new();
    for _ in 0..5 {
        let text = stage
            .render("{% set a = random_string(1000000) %}{% for i in range(20) %}{{ a }}{% endfor %}", 1);
        assert_eq!(text.map(|text| text.len()), Ok(20_000_000));
    }
}
