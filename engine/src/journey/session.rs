//! What a virtual user, or the session of an arrival, remembers from one request to the next.
use super::answers::Jar;
use minijinja::value::Value;

/// One session. It is small: buffers for requests and answers belong to the thread.
#[derive(Default)]
pub struct Session {
    /// What was captured, by slot.
    pub(super) slots: Vec<Value>,
    /// Its cookies.
    pub jar: Jar,
    /// The rows of the iteration, by feed.
    pub(super) rows: Vec<u32>,
    /// Rounds that are left, by `repeat`.
    pub(super) rounds: Vec<u32>,
    /// The `once` that have been done, a bit each.
    pub(super) done: u64,
}

impl Session {
    /// Before the first request of another session: nothing is remembered.
    pub fn renew(&mut self) {
        self.slots.clear();
        self.jar.clear();
        self.done = 0;
    }

    /// Keeps what a capture has found.
    pub fn set(&mut self, slot: usize, value: Value) {
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, Value::UNDEFINED);
        }
        self.slots[slot] = value;
    }

    /// What a capture has found, if it has.
    pub fn get(&self, slot: usize) -> Option<&Value> {
        self.slots.get(slot).filter(|value| !value.is_undefined())
    }
}
