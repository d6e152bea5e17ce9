//! Templates: minijinja, with a few variables and functions of our own; plain ones without it.
mod bounds;
#[cfg(test)]
mod bounds_tests;
mod compare;
mod functions;
#[cfg(test)]
mod fuzz_tests;
mod scope;
mod simple;
#[cfg(test)]
mod tests;

pub use scope::{Name, Scope, from_json};

use super::Session;
use super::encode::Encoding;
use crate::rng::Rng;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Value, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior};
pub use simple::{Plain, Segment};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Steps of the template machine for one rendering: a loop without an end is an error, not a hang.
const FUEL: u64 = 100_000;
/// The function by which an expression's value gets out of the template machine with its type.
const KEEP: &str = "__keep";

/// Names of templates begin with one of these: in those of paths, values are escaped.
const PATH: &str = "path";
const TEXT: &str = "text";

/// For whom a template is rendered.
pub struct Frame<'a> {
    /// All templates of the job.
    pub templates: &'a Templates,
    /// Names that can be used.
    pub scope: &'a Arc<Scope>,
    /// Virtual user (closed) or arrival (open).
    pub user: u64,
    /// Iteration of the user.
    pub iteration: u64,
    /// What was captured, and the rows of feeds.
    pub session: &'a mut Session,
    /// Where random draws come from.
    pub rng: &'a mut Rng,
}

/// A text of a request.
#[derive(Clone, Debug)]
pub enum Text {
    /// Always the same.
    Fixed(String),
    /// Texts and plain expressions.
    Simple(Vec<Segment>),
    /// Something that only minijinja can render.
    Template(Template),
}

/// A template of minijinja.
#[derive(Clone, Debug)]
pub struct Template {
    name: String,
    /// The template that keeps the value of the one expression that this is.
    keeper: Option<String>,
}

/// All templates of a job.
pub struct Templates {
    environment: Environment<'static>,
    count: usize,
    feeds: BTreeSet<usize>,
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
        environment.set_formatter(format);
        let escape = |name: &str| {
            if name.starts_with(PATH) { AutoEscape::Custom(PATH.into()) } else { AutoEscape::None }
        };
        environment.set_auto_escape_callback(escape);
        functions::register(&mut environment);
        environment.add_function(KEEP, |value: Value| {
            scope::keep(value);
            ""
        });
        environment.add_function(compare::COMPARE, compare::compare);
        // What it binds can be bound to itself, without an end.
        environment.remove_global("namespace");
        bounds::register(&mut environment);
        Self { environment, count: 0, feeds: BTreeSet::new() }
    }
}

impl Templates {
    /// Takes a text in. One without `{{` is no template; one with it is compiled, its names are looked up, and unless it
    /// needs a capture it is rendered once, so that whatever cannot work is found before the first request.
    pub fn text(&mut self, source: &str, scope: &Arc<Scope>) -> Result<Text, String> {
        self.take_in(source, scope, TEXT)
    }

    /// The same for a path: whatever only minijinja can render is written with its values escaped.
    pub fn path(&mut self, source: &str, scope: &Arc<Scope>) -> Result<Text, String> {
        self.take_in(source, scope, PATH)
    }

    fn take_in(&mut self, source: &str, scope: &Arc<Scope>, kind: &str) -> Result<Text, String> {
        if !source.contains("{{") {
            return Ok(Text::Fixed(source.to_owned()));
        }
        // In either way it has to be a template for minijinja, which knows better what is wrong with it.
        let (text, needs_capture) = self.compile(source, scope, kind)?;
        let text = match simple::parse(source, scope) {
            Some(segments) => Text::Simple(segments),
            None => Text::Template(text),
        };
        if !needs_capture {
            self.with_frame(scope, |frame| text.write(frame, &mut String::new()))?;
        }
        Ok(text)
    }

    /// Feeds that texts have named since they were forgotten last.
    pub fn used_feeds(&self) -> &BTreeSet<usize> {
        &self.feeds
    }

    /// Before the texts of another workload.
    pub fn forget_feeds(&mut self) {
        self.feeds.clear();
    }

    /// For the first user, who has captured nothing.
    pub fn with_frame<R>(&self, scope: &Arc<Scope>, render: impl FnOnce(&mut Frame<'_>) -> R) -> R {
        let (mut session, mut rng) = (Session::default(), Rng::from_parts(&[0]));
        session.rows = scope.first_rows();
        let (session, rng) = (&mut session, &mut rng);
        render(&mut Frame { templates: self, scope, user: 0, iteration: 0, session, rng })
    }

    /// The template, and whether it needs what only a capture gives.
    fn compile(&mut self, source: &str, scope: &Scope, kind: &str) -> Result<(Template, bool), String> {
        if source.contains(compare::COMPARE) {
            return Err(format!("unknown: {}", compare::COMPARE));
        }
        let source = &compare::rewrite(&bounds::rewrite(source)?)?;
        let name = self.add(source, kind)?;
        let template = self.environment.get_template(&name).map_err(|e| describe(&e))?;
        let mut unknown = BTreeSet::new();
        let (mut needs_capture, mut feeds) = (false, BTreeSet::new());
        for used in template.undeclared_variables(true) {
            let (first, member) = used.split_once('.').unwrap_or((&used, ""));
            match scope.get(first) {
                Some(Name::Slot(_)) => needs_capture = true,
                Some(Name::Feed(feed)) => {
                    feeds.insert(*feed);
                    let column = member.split('.').next().unwrap_or("");
                    let table = scope.table(*feed);
                    if !column.is_empty() && table.column(column).is_none() {
                        let columns = table.columns().join(", ");
                        return Err(format!("unknown: {first}.{column}; columns of {first}: {columns}"));
                    }
                }
                Some(_) => {}
                None if self.environment.globals().any(|(global, _)| global == first && global != KEEP) => {}
                None => {
                    unknown.insert(first.to_owned());
                }
            }
        }
        if !unknown.is_empty() {
            let unknown: Vec<_> = unknown.into_iter().collect();
            let known: Vec<_> = scope.known().collect();
            let functions = functions::NAMES.map(|f| format!("{f}()")).join(", ");
            return Err(format!("unknown: {}; known: {}, {functions}", unknown.join(", "), known.join(", ")));
        }
        self.feeds.append(&mut feeds);
        // Whether a source is one expression is known for certain only where this compiles, too.
        let keeper = single_expression(source)
            .and_then(|inner| self.add(&format!("{{{{ {KEEP}({inner}) }}}}"), kind).ok());
        Ok((Template { name, keeper }, needs_capture))
    }

    fn add(&mut self, source: &str, kind: &str) -> Result<String, String> {
        let name = format!("{kind}{}", self.count);
        self.count += 1;
        self.environment.add_template_owned(name.clone(), source.to_owned()).map_err(|e| describe(&e))?;
        Ok(name)
    }

    fn render(&self, name: &str, frame: &mut Frame<'_>, out: &mut String) -> Result<Value, String> {
        let template = self.environment.get_template(name).map_err(|e| describe(&e))?;
        let context = Value::from_dyn_object(Arc::clone(frame.scope));
        bounds::refill();
        let mut written = bounds::Bounded::default();
        let (result, kept) =
            scope::live(frame, || template.render_captured_to(context, &mut written).map(drop));
        frame.session.lacked &= result.is_err();
        result.map_err(|e| describe(&e))?;
        // It was written in whole texts.
        out.push_str(&String::from_utf8_lossy(&written.0));
        Ok(kept)
    }
}

impl Text {
    /// The text, if it is always the same.
    pub fn fixed(&self) -> Option<&str> {
        match self {
            Self::Fixed(text) => Some(text),
            _ => None,
        }
    }

    /// Appends what it gives.
    pub fn write(&self, frame: &mut Frame<'_>, out: &mut String) -> Result<(), String> {
        match self {
            Self::Fixed(text) => out.push_str(text),
            Self::Simple(segments) => {
                for segment in segments {
                    match segment {
                        Segment::Text(text) => out.push_str(text),
                        Segment::Plain(plain) => plain.write(frame, out)?,
                    }
                }
            }
            Self::Template(template) => {
                frame.templates.render(&template.name, frame, out)?;
            }
        }
        Ok(())
    }

    /// What it gives, with its type if it is one expression alone.
    pub fn value(&self, frame: &mut Frame<'_>) -> Result<Value, String> {
        match self {
            Self::Simple(segments) if let [Segment::Plain(plain)] = &segments[..] => {
                return plain.value(frame);
            }
            Self::Template(Template { keeper: Some(keeper), .. }) => {
                return frame.templates.render(keeper, frame, &mut String::new());
            }
            _ => {}
        }
        let mut text = String::new();
        self.write(frame, &mut text)?;
        Ok(Value::from(text))
    }

    /// Whether it is one expression alone, so that its value has a type.
    pub fn is_typed(&self) -> bool {
        match self {
            Self::Fixed(_) => false,
            Self::Simple(segments) => matches!(segments[..], [Segment::Plain(_)]),
            Self::Template(template) => template.keeper.is_some(),
        }
    }

    /// Whether what it gives is true: anything but empty, `false`, `0`, `none`. What no capture has set is empty.
    pub fn holds(&self, frame: &mut Frame<'_>) -> Result<bool, String> {
        if let Self::Simple(segments) = self
            && let [Segment::Plain(Plain::Slot(slot, _))] = &segments[..]
            && frame.session.slots.get(*slot).is_none_or(Value::is_undefined)
        {
            return Ok(false);
        }
        let value = self.value(frame)?;
        let Some(text) = value.as_str() else { return Ok(value.is_true()) };
        let text = text.trim();
        Ok(!["", "0", "false", "none", "null"].iter().any(|no| text.eq_ignore_ascii_case(no)))
    }
}

/// What stands between the braces of a source that seems to be nothing but `{{ … }}`.
fn single_expression(source: &str) -> Option<&str> {
    let inner = source.trim().strip_prefix("{{")?.strip_suffix("}}")?;
    let trims = inner.starts_with(['-', '+']) || inner.ends_with(['-', '+']);
    (!trims && !inner.contains("{{") && !inner.contains("}}")).then_some(inner)
}

/// Writes a value: texts as they are, anything else as JSON writes it.
pub fn write_value(value: &Value, out: &mut String) -> Result<(), String> {
    if let Some(text) = value.as_str() {
        out.push_str(text);
        return Ok(());
    }
    if value.is_undefined() {
        return Err("undefined value".into());
    }
    let kinds = [ValueKind::None, ValueKind::Bool, ValueKind::Number, ValueKind::Seq, ValueKind::Map];
    if !kinds.contains(&value.kind()) {
        out.push_str(&value.to_string());
        return Ok(());
    }
    out.push_str(&serde_json::to_string(value).map_err(|e| e.to_string())?);
    Ok(())
}

fn format(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    if value.is_undefined() {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    if matches!(state.auto_escape(), AutoEscape::Custom(_)) && !value.is_safe() {
        let (mut text, mut escaped) = (String::new(), String::new());
        write_value(value, &mut text).map_err(|e| Error::new(ErrorKind::BadSerialization, e))?;
        Encoding::Query.push(&text, &mut escaped);
        return out.write_str(&escaped).map_err(Error::from);
    }
    if let Some(text) = value.as_str() {
        return out.write_str(text).map_err(Error::from);
    }
    let mut text = String::new();
    write_value(value, &mut text).map_err(|e| Error::new(ErrorKind::BadSerialization, e))?;
    out.write_str(&text).map_err(Error::from)
}

/// Without the source, the values and the place of an error: a value may be a secret.
fn describe(error: &Error) -> String {
    let line = error.line().map_or(String::new(), |line| format!(" in line {line}"));
    let detail = match std::error::Error::source(error) {
        // Why no more can be written.
        Some(source) if error.kind() == ErrorKind::WriteFailure => format!(": {source}"),
        _ => error.detail().map_or(String::new(), |detail| format!(": {detail}")),
    };
    format!("template{line}: {}{detail}", error.kind())
}
