//! A value that a `JSONPath` led to, as it stands in the body or built: compared, as text, and for templates.
use minijinja::value::Value as Variable;
use serde_json::Value;
use std::borrow::Cow;

/// A value that a path led to.
#[derive(Clone, Copy, Debug)]
pub enum Node<'a> {
    /// As it stands in the body.
    Raw(&'a str),
    /// Built.
    Built(&'a Value),
}

impl<'a> Node<'a> {
    /// Whether it is this value; numbers are compared by what they are worth.
    pub fn equals(self, other: &Value) -> bool {
        match self {
            Self::Built(value) => equal(value, other),
            Self::Raw(text) => match (plain_text(text), other) {
                (Some(text), Value::String(other)) => text == other,
                (Some(_), _) => false,
                (None, _) => serde_json::from_str(text).is_ok_and(|value| equal(&value, other)),
            },
        }
    }

    /// A text as it is; everything else as JSON.
    pub fn text(self) -> Cow<'a, str> {
        match self {
            Self::Built(Value::String(text)) => Cow::Borrowed(text),
            Self::Built(value) => Cow::Owned(value.to_string()),
            Self::Raw(raw) => match plain_text(raw) {
                Some(text) => Cow::Borrowed(text),
                None if raw.starts_with('"') => {
                    serde_json::from_str::<String>(raw).map_or(raw.into(), Cow::Owned)
                }
                None => Cow::Borrowed(raw),
            },
        }
    }

    /// For templates; none for what is JSON only at first sight (a lone surrogate, too deep).
    pub fn variable(self) -> Option<Variable> {
        match self {
            Self::Built(value) => Some(variable(value)),
            Self::Raw(raw) => match plain_text(raw) {
                Some(text) => Some(Variable::from(text)),
                None => serde_json::from_str(raw).ok().map(|value| variable(&value)),
            },
        }
    }
}

fn variable(value: &Value) -> Variable {
    match value {
        Value::Null => Variable::from(()),
        Value::Bool(truth) => Variable::from(*truth),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Variable::from(number),
            (None, Some(number)) => Variable::from(number),
            (None, None) => Variable::from(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Variable::from(text.as_str()),
        Value::Array(items) => Variable::from(items.iter().map(variable).collect::<Vec<_>>()),
        Value::Object(entries) => {
            Variable::from_pairs(entries.iter().map(|(k, v)| (k.as_str(), variable(v))))
        }
    }
}

/// The inside of a JSON text that needs no decoding.
fn plain_text(raw: &str) -> Option<&str> {
    let inside = raw.strip_prefix('"')?.strip_suffix('"')?;
    memchr::memchr(b'\\', inside.as_bytes()).is_none().then_some(inside)
}

/// Whether two values are the same; numbers are compared by what they are worth.
pub fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            a == b || (a.is_f64() || b.is_f64()) && a.as_f64() == b.as_f64()
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        _ => a == b,
    }
}
