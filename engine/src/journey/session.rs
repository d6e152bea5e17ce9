//! What a virtual user, or the session of an arrival, remembers from one request to the next.
use super::answers::Jar;
use minijinja::value::Value;
use std::mem;

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
    /// A capture has found nothing, or its answer was not the expected one.
    pub(super) missed: bool,
    /// The text that could not be rendered has looked for what no capture has set.
    pub(super) lacked: bool,
}

impl Session {
    /// Before the first request of another session: nothing is remembered.
    pub fn renew(&mut self) {
        self.slots.clear();
        self.jar.clear();
        self.done = 0;
        (self.missed, self.lacked) = (false, false);
    }

    /// Keeps what a capture has found; undefined is what has found nothing.
    pub fn set(&mut self, slot: usize, value: Value) {
        self.missed |= value.is_undefined();
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, Value::UNDEFINED);
        }
        self.slots[slot] = value;
    }

    /// After a text could not be rendered: whether that follows from an answer that gave less than was to be captured,
    /// rather than from the text. A variable that was never looked for in this session is a fault of the journey.
    pub fn take_lack(&mut self) -> bool {
        mem::take(&mut self.lacked) && self.missed
    }

    /// What a capture has found, if it has.
    pub fn get(&self, slot: usize) -> Option<&Value> {
        self.slots.get(slot).filter(|value| !value.is_undefined())
    }
}
