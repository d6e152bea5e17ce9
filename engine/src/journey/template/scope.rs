//! The names that templates of a workload can use.
use super::Frame;
use crate::job::{Feed, Table};
use crate::rng::Rng;
use minijinja::value::{Enumerator, Object, Value};
use serde::Deserialize as _;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

/// What a name stands for.
#[derive(Clone, Debug)]
pub enum Name {
    /// Number of the virtual user, or of the arrival.
    User,
    /// Iteration of the user.
    Iteration,
    /// Number of the arrival.
    Arrival,
    /// Always the same.
    Constant(Value),
    /// What a capture found, by its slot in the session.
    Slot(usize),
    /// The row of a feed, by its place among the feeds of the job.
    Feed(usize),
}

/// All names of a workload.
#[derive(Debug, Default)]
pub struct Scope {
    names: BTreeMap<String, Name>,
    tables: Vec<Arc<Table>>,
    rows: Vec<Value>,
}

impl Scope {
    /// The names that every workload has.
    pub fn new(run_id: &str, open: bool, feeds: &[Feed]) -> Self {
        let mut scope = Self::default();
        scope.names.insert("user".into(), Name::User);
        scope.names.insert("iteration".into(), Name::Iteration);
        scope.names.insert("run_id".into(), Name::Constant(Value::from(run_id)));
        if open {
            scope.names.insert("arrival".into(), Name::Arrival);
        }
        for (place, feed) in feeds.iter().enumerate() {
            scope.names.insert(feed.name.clone(), Name::Feed(place));
            let row = CurrentRow { feed: place, table: Arc::clone(&feed.table) };
            scope.rows.push(Value::from_object(row));
            scope.tables.push(Arc::clone(&feed.table));
        }
        scope
    }

    /// Adds a name; one that is there already is an error.
    pub fn add(&mut self, name: &str, meaning: Name) -> Result<(), String> {
        let what = match self.names.get(name) {
            // Several steps may capture the same variable.
            Some(Name::Slot(_)) if matches!(meaning, Name::Slot(_)) => return Ok(()),
            Some(Name::Constant(_)) if name != "run_id" => "a variable of the journey",
            Some(Name::Slot(_)) => "a capture",
            Some(Name::Feed(_)) => "a feed",
            Some(_) => "a name that every template has",
            None if name == "arrival" => "a name that every template of open load has",
            None if super::functions::NAMES.contains(&name) => "a function",
            None if !is_identifier(name) => {
                let allowed =
                    "letters, digits and _, not a digit first, and no word of the template language";
                return Err(format!("\"{name}\" is no name for a variable; allowed: {allowed}"));
            }
            None => {
                self.names.insert(name.to_owned(), meaning);
                return Ok(());
            }
        };
        Err(format!("\"{name}\" is already {what}; take another name"))
    }

    /// What a name stands for.
    pub fn get(&self, name: &str) -> Option<&Name> {
        self.names.get(name)
    }

    /// All names, for messages.
    pub fn known(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    /// The first row of every feed.
    pub fn first_rows(&self) -> Vec<u32> {
        vec![0; self.tables.len()]
    }

    /// The table of a feed.
    pub fn table(&self, feed: usize) -> &Table {
        &self.tables[feed]
    }
}

fn is_identifier(name: &str) -> bool {
    const WORDS: [&str; 22] = [
        "true", "false", "none", "True", "False", "None", "and", "or", "not", "in", "is", "if", "else",
        "for", "endfor", "set", "self", "loop", "macro", "block", "filter", "super",
    ];
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !name.starts_with("__")
        && !WORDS.contains(&name)
}

/// A value of the job or of an answer.
pub fn from_json(value: &serde_json::Value) -> Value {
    // Every JSON value is one of a template.
    Value::deserialize(value).unwrap_or_default()
}

/// A cell as a value: text of CSV, any type of JSON Lines.
pub fn cell_value(table: &Table, row: usize, column: usize) -> Value {
    let cell = table.cell(row, column);
    if !table.is_json {
        return Value::from(cell);
    }
    // It was written by serde_json itself.
    serde_json::from_str(cell).unwrap_or_default()
}

/// What of a [`Frame`] changes from one rendering to the next, where the objects of minijinja, which own what they
/// hold, can see it: values are moved in before a rendering and out after it, nothing is copied.
#[derive(Default)]
struct Live {
    user: u64,
    iteration: u64,
    slots: Vec<Value>,
    rows: Vec<u32>,
    rng: Option<Rng>,
    kept: Value,
    /// What no capture has set was looked for.
    lacked: bool,
}

thread_local! {
    static LIVE: RefCell<Live> = RefCell::default();
}

/// Runs a rendering of minijinja for a frame. Gives what was kept, too.
pub fn live<R>(frame: &mut Frame<'_>, render: impl FnOnce() -> R) -> (R, Value) {
    LIVE.with_borrow_mut(|live| {
        live.user = frame.user;
        live.iteration = frame.iteration;
        live.slots = mem::take(&mut frame.session.slots);
        live.rows = mem::take(&mut frame.session.rows);
        live.rng = Some(frame.rng.clone());
        live.kept = Value::UNDEFINED;
        live.lacked = false;
    });
    let result = render();
    let kept = LIVE.with_borrow_mut(|live| {
        frame.session.slots = mem::take(&mut live.slots);
        frame.session.rows = mem::take(&mut live.rows);
        if let Some(rng) = live.rng.take() {
            *frame.rng = rng;
        }
        frame.session.lacked = live.lacked;
        mem::take(&mut live.kept)
    });
    (result, kept)
}

/// Draws from the generator of the session that is being rendered for.
pub fn with_rng<R>(draw: impl FnOnce(&mut Rng) -> R) -> Result<R, String> {
    LIVE.with_borrow_mut(|live| live.rng.as_mut().map(draw)).ok_or_else(|| "no generator".to_owned())
}

/// Keeps a value for whoever started the rendering.
pub fn keep(value: Value) {
    LIVE.with_borrow_mut(|live| live.kept = value);
}

impl Object for Scope {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let number = |read: fn(&Live) -> u64| LIVE.with_borrow(|live| Value::from(read(live)));
        Some(match self.get(key.as_str()?)? {
            Name::User | Name::Arrival => number(|live| live.user),
            Name::Iteration => number(|live| live.iteration),
            Name::Constant(value) => value.clone(),
            Name::Slot(slot) => LIVE.with_borrow_mut(|live| {
                let value = live.slots.get(*slot).filter(|value| !value.is_undefined()).cloned();
                live.lacked |= value.is_none();
                value
            })?,
            Name::Feed(feed) => self.rows[*feed].clone(),
        })
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::NonEnumerable
    }
}

/// The row of a feed that the iteration has taken.
#[derive(Debug)]
struct CurrentRow {
    feed: usize,
    table: Arc<Table>,
}

impl Object for CurrentRow {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let column = self.table.column(key.as_str()?)?;
        let row = LIVE.with_borrow(|live| live.rows.get(self.feed).copied())?;
        Some(cell_value(&self.table, row as usize, column))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.table.columns().iter().map(|name| Value::from(name.as_str())).collect())
    }
}
