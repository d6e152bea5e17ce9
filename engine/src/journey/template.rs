//! Templates: minijinja, with a few variables and functions of our own.
use crate::rng::Rng;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Steps of the template machine for one rendering: a loop without an end is an error, not a hang.
const FUEL: u64 = 100_000;
/// `random_hex` gives this many digits at most.
const MAX_HEX: u64 = 1 << 20;
const FUNCTIONS: [&str; 3] = ["random_int", "random_choice", "random_hex"];

thread_local! {
    /// The generator of the user for whom a template is being rendered: functions have no other way to it.
    static USER_RNG: RefCell<Option<Rng>> = const { RefCell::new(None) };
}

/// A text of a request.
#[derive(Clone, Debug)]
pub enum Text {
    /// Always the same.
    Plain(String),
    /// Name of a template.
    Template(String),
}

impl Text {
    /// Whether it has to be rendered each time.
    pub fn is_template(&self) -> bool {
        matches!(self, Self::Template(_))
    }
}

/// What a template can speak of.
#[derive(Clone, Copy, Debug, Default)]
pub struct Variables<'a> {
    /// Virtual user (closed) or arrival (open).
    pub user: u64,
    /// Iteration of the user.
    pub iteration: u64,
    /// Number of the arrival; none in closed load.
    pub arrival: Option<u64>,
    /// Name of the run.
    pub run_id: &'a str,
}

/// All templates of a job.
pub struct Templates {
    environment: Environment<'static>,
    count: usize,
    /// Whether `arrival` is known in what is compiled next.
    pub open: bool,
}

impl Default for Templates {
    fn default() -> Self {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_fuel(Some(FUEL));
        // The delimiters are the standard ones: building this cannot fail.
        if let Ok(syntax) = SyntaxConfig::builder().keep_trailing_newline(true).build() {
            environment.set_syntax(syntax);
        }
        environment.add_function("random_int", random_int);
        environment.add_function("random_choice", random_choice);
        environment.add_function("random_hex", random_hex);
        Self { environment, count: 0, open: false }
    }
}

impl Templates {
    /// Takes a text in. One without `{{` is no template; one with it is compiled, its names are looked up, and it is
    /// rendered once, so that whatever cannot work is found before the first request.
    pub fn text(&mut self, source: &str) -> Result<Text, String> {
        if !source.contains("{{") {
            return Ok(Text::Plain(source.to_owned()));
        }
        let name = format!("t{}", self.count);
        self.count += 1;
        self.environment.add_template_owned(name.clone(), source.to_owned()).map_err(|e| describe(&e))?;
        let template = self.environment.get_template(&name).map_err(|e| describe(&e))?;
        let mut known: BTreeSet<&str> = ["user", "iteration", "run_id"].into();
        known.extend(self.open.then_some("arrival"));
        let mut unknown = template.undeclared_variables(false);
        unknown.retain(|name| {
            !known.contains(name.as_str())
                && !FUNCTIONS.contains(&name.as_str())
                && !self.environment.globals().any(|(global, _)| global == name.as_str())
        });
        if !unknown.is_empty() {
            let unknown: Vec<_> = unknown.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
            let known: Vec<_> = known.into_iter().collect();
            let functions = FUNCTIONS.map(|f| format!("{f}()")).join(", ");
            return Err(format!("unknown: {}; known: {}, {functions}", unknown.join(", "), known.join(", ")));
        }
        let text = Text::Template(name);
        let variables = Variables { arrival: self.open.then_some(0), run_id: "run", ..Variables::default() };
        self.render(&text, &variables, &mut Rng::from_parts(&[0]), &mut String::new())?;
        Ok(text)
    }

    /// Renders a text; random draws come from `rng`.
    pub fn render(
        &self,
        text: &Text,
        variables: &Variables<'_>,
        rng: &mut Rng,
        out: &mut String,
    ) -> Result<(), String> {
        let name = match text {
            Text::Plain(text) => {
                out.push_str(text);
                return Ok(());
            }
            Text::Template(name) => name,
        };
        let template = self.environment.get_template(name).map_err(|e| describe(&e))?;
        let context = minijinja::context! {
            user => variables.user,
            iteration => variables.iteration,
            run_id => variables.run_id,
            arrival => variables.arrival.map_or(Value::UNDEFINED, Value::from),
        };
        USER_RNG.set(Some(rng.clone()));
        let result = template.render(context);
        if let Some(used) = USER_RNG.take() {
            *rng = used;
        }
        out.push_str(&result.map_err(|e| describe(&e))?);
        Ok(())
    }
}

fn describe(error: &Error) -> String {
    let line = error.line().map_or(String::new(), |line| format!(" in line {line}"));
    format!(
        "template{line}: {}",
        error.detail().map_or_else(|| error.kind().to_string(), |d| { format!("{}: {d}", error.kind()) })
    )
}

fn draw<T>(from: impl FnOnce(&mut Rng) -> T) -> Result<T, Error> {
    USER_RNG.with_borrow_mut(|rng| rng.as_mut().map(from)).ok_or_else(|| invalid("no generator"))
}

fn invalid(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

fn random_int(a: i64, b: i64) -> Result<i64, Error> {
    if a > b {
        return Err(invalid("random_int: the first bound is above the second"));
    }
    let span = b.wrapping_sub(a) as u64;
    draw(|rng| {
        let step = if span == u64::MAX { rng.next_u64() } else { rng.below(span + 1) };
        a.wrapping_add(step as i64)
    })
}

#[expect(clippy::needless_pass_by_value, reason = "minijinja hands its arguments over")]
fn random_choice(items: Vec<Value>) -> Result<Value, Error> {
    let at = draw(|rng| rng.below(items.len() as u64))?;
    items.get(at as usize).cloned().ok_or_else(|| invalid("random_choice: an empty list"))
}

fn random_hex(digits: u64) -> Result<String, Error> {
    if digits > MAX_HEX {
        return Err(invalid("random_hex: more than 1048576 digits"));
    }
    draw(|rng| {
        let mut text = String::with_capacity(digits as usize + 16);
        while (text.len() as u64) < digits {
            // Writing to a String cannot fail.
            let _ = write!(text, "{:016x}", rng.next_u64());
        }
        text.truncate(digits as usize);
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(source: &str, seed: u64) -> Result<String, String> {
        let mut templates = Templates { open: true, ..Templates::default() };
        let text = templates.text(source)?;
        let variables = Variables { user: 7, iteration: 2, arrival: Some(9), run_id: "r1" };
        let mut out = String::new();
        templates.render(&text, &variables, &mut Rng::from_parts(&[seed]), &mut out)?;
        Ok(out)
    }

    #[test]
    fn variables_and_functions_work() {
        assert_eq!(render("{{user}}/{{ iteration }}/{{arrival}}/{{run_id}}\n", 1), Ok("7/2/9/r1\n".into()));
        assert_eq!(render("{{ random_hex(20) }}", 1).map(|t| t.len()), Ok(20));
        for seed in 0..50 {
            let number: i64 =
                render("{{ random_int(-2, 2) }}", seed).expect("renders").parse().expect("a number");
            assert!((-2..=2).contains(&number));
            let choice = render("{{ random_choice(['a', 'b']) }}", seed).expect("renders");
            assert!(["a", "b"].contains(&choice.as_str()));
        }
    }

    #[test]
    fn seeds_reproduce() {
        let source = "{{ random_int(1, 1000000) }} {{ random_hex(8) }}";
        assert_eq!(render(source, 4), render(source, 4));
        assert_ne!(render(source, 4), render(source, 5));
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let bad = [
            "{{ usr }}",
            "{{ user",
            "{{ random_int(5, 1) }}",
            "{{ random_choice([]) }}",
            "{{ nothing() }}",
            "{{ user | nothing }}",
            "{% for i in range(99999) %}{% for j in range(99999) %}{{ j }}{% endfor %}{% endfor %}",
            "{{ random_hex(99999999) }}",
        ];
        for source in bad {
            assert!(render(source, 1).is_err(), "{source}");
        }
        let mut closed = Templates::default();
        assert!(closed.text("{{ arrival }}").expect_err("closed").contains("unknown: arrival"));
    }
}
