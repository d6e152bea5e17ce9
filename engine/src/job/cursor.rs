//! Walks a JSON document and keeps every problem with its path, instead of ending at the first.
use super::Problem;
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Collects problems.
#[derive(Default)]
pub struct Problems(RefCell<Vec<Problem>>);

impl Problems {
    pub fn add(&self, path: &str, message: impl Into<String>) {
        self.0.borrow_mut().push(Problem { path: path.to_owned(), message: message.into() });
    }

    pub fn into_vec(self) -> Vec<Problem> {
        self.0.into_inner()
    }
}

/// A value and where it stands.
pub struct Node<'a> {
    pub value: &'a Value,
    pub path: String,
    problems: &'a Problems,
}

impl<'a> Node<'a> {
    pub fn root(value: &'a Value, problems: &'a Problems) -> Self {
        Self { value, path: "$".into(), problems }
    }

    pub fn problem(&self, message: impl Into<String>) {
        self.problems.add(&self.path, message);
    }

    /// Adds "found X, expected Y" and gives nothing.
    fn mismatch<T>(&self, expected: &str) -> Option<T> {
        self.problem(format!("{} where {expected} is expected", shown(self.value)));
        None
    }

    pub fn object(&self) -> Option<Object<'a>> {
        match self.value {
            Value::Object(map) => {
                Some(Object { map, path: self.path.clone(), known: BTreeSet::new(), problems: self.problems })
            }
            _ => self.mismatch("an object"),
        }
    }

    pub fn array(&self) -> Option<Vec<Node<'a>>> {
        let Value::Array(items) = self.value else { return self.mismatch("a list") };
        let node = |(i, value)| Node { value, path: format!("{}[{i}]", self.path), problems: self.problems };
        Some(items.iter().enumerate().map(node).collect())
    }

    /// A list with at least one element.
    pub fn filled_array(&self) -> Option<Vec<Node<'a>>> {
        let items = self.array()?;
        if items.is_empty() {
            self.problem("an empty list; at least one element is needed");
        }
        Some(items)
    }

    pub fn str(&self) -> Option<&'a str> {
        self.value.as_str().or_else(|| self.mismatch("a text"))
    }

    /// A text that is not empty.
    pub fn name(&self) -> Option<String> {
        let text = self.str()?;
        if text.is_empty() {
            self.problem("an empty name");
            return None;
        }
        Some(text.to_owned())
    }

    /// A whole number between two bounds, both included.
    pub fn integer(&self, least: u64, most: u64) -> Option<u64> {
        let expected = || format!("a whole number from {least} to {most}");
        match self.value.as_u64() {
            Some(n) if (least..=most).contains(&n) => Some(n),
            _ => self.mismatch(&expected()),
        }
    }

    /// A finite number between two bounds, both included.
    pub fn number(&self, least: f64, most: f64) -> Option<f64> {
        match self.value.as_f64() {
            Some(x) if x.is_finite() && x >= least && x <= most => Some(x),
            _ => self.mismatch(&format!("a number from {least} to {most}")),
        }
    }

    /// True or false.
    pub fn truth(&self) -> Option<bool> {
        self.value.as_bool().or_else(|| self.mismatch("true or false"))
    }

    /// A number for "exactly so many", or two for "from … to …".
    pub fn range(&self, least: u64, most: u64) -> Option<(u64, u64)> {
        if !self.value.is_array() {
            return self.integer(least, most).map(|n| (n, n));
        }
        let [a, b] = &self.array()?[..] else { return self.mismatch("a number or two numbers") };
        let (a, b) = (a.integer(least, most)?, b.integer(least, most)?);
        if a > b {
            self.problem(format!("{a} is above {b}; the smaller comes first"));
            return None;
        }
        Some((a, b))
    }

    /// A text, or a number or truth value as text.
    pub fn scalar(&self) -> Option<String> {
        match self.value {
            Value::String(text) => Some(text.clone()),
            Value::Number(_) | Value::Bool(_) => Some(self.value.to_string()),
            _ => self.mismatch("a text, a number, true or false"),
        }
    }

    /// One of several words.
    pub fn choice<T: Copy>(&self, allowed: &[(&str, T)]) -> Option<T> {
        let text = self.str()?;
        if let Some((_, value)) = allowed.iter().find(|(word, _)| *word == text) {
            return Some(*value);
        }
        let words: Vec<_> = allowed.iter().map(|(word, _)| *word).collect();
        self.problem(format!("\"{text}\" is unknown; allowed: {}", words.join(", ")));
        None
    }
}

/// An object whose keys are being read; [`Object::finish`] names those that nobody asked for.
pub struct Object<'a> {
    map: &'a Map<String, Value>,
    pub path: String,
    known: BTreeSet<&'static str>,
    problems: &'a Problems,
}

impl<'a> Object<'a> {
    pub fn problem(&self, message: impl Into<String>) {
        self.problems.add(&self.path, message);
    }

    pub fn problem_at(&self, key: &str, message: impl Into<String>) {
        self.problems.add(&format!("{}.{key}", self.path), message);
    }

    /// A key that may be absent or null.
    pub fn optional(&mut self, key: &'static str) -> Option<Node<'a>> {
        self.known.insert(key);
        let value = self.map.get(key).filter(|value| !value.is_null())?;
        Some(Node { value, path: format!("{}.{key}", self.path), problems: self.problems })
    }

    /// A key that must be there.
    pub fn required(&mut self, key: &'static str) -> Option<Node<'a>> {
        let node = self.optional(key);
        if node.is_none() {
            self.problem_at(key, "missing");
        }
        node
    }

    /// All entries, for objects whose keys are names.
    pub fn entries(&self) -> Vec<(&'a str, Node<'a>)> {
        let node = |(key, value): (&'a String, &'a Value)| {
            let path = format!("{}.{key}", self.path);
            (key.as_str(), Node { value, path, problems: self.problems })
        };
        self.map.iter().map(node).collect()
    }

    /// Complains about keys that were not asked for.
    pub fn finish(self) {
        for key in self.map.keys().filter(|key| !self.known.contains(key.as_str())) {
            let allowed: Vec<_> = self.known.iter().copied().collect();
            self.problem_at(key, format!("unknown key; allowed: {}", allowed.join(", ")));
        }
    }
}

/// A value as it is shown in a message: short, and never a whole document.
fn shown(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".into(),
        Value::Array(_) => "a list".into(),
        Value::String(text) if text.len() > 40 => "a long text".into(),
        other => other.to_string(),
    }
}
