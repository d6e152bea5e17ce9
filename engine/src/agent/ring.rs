//! The last minutes of an agent: numbered, bounded in bytes; who asks gets what came after a number.
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Some minutes at a reading of 1.5 KB a second; what is older is overrun by what is new.
const MOST_BYTES: usize = 2 << 20;
/// Of one answer: well below what a message may have.
const MOST_ANSWERED: usize = 512 << 10;

/// Items as they are sent, the oldest first.
#[derive(Default)]
pub struct Ring(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    items: VecDeque<Box<RawValue>>,
    bytes: usize,
    /// Number of the item that comes next; the first of all has 1.
    next: u64,
}

/// What is handed out.
#[derive(Debug, Serialize)]
pub struct Taken {
    /// Number of the first item here; those between the one that was asked for and this were overrun.
    pub first: u64,
    /// Number of the newest that there is.
    pub newest: u64,
    /// In order, without a hole.
    pub items: Vec<Box<RawValue>>,
}

impl Ring {
    /// Keeps an item; the oldest give way to it.
    pub fn push(&self, item: &impl Serialize) {
        let Ok(raw) = serde_json::value::to_raw_value(item) else { return };
        let mut kept = self.kept();
        kept.bytes += raw.get().len();
        kept.items.push_back(raw);
        kept.next += 1;
        while kept.bytes > MOST_BYTES
            && let Some(old) = kept.items.pop_front()
        {
            kept.bytes -= old.get().len();
        }
    }

    /// What came after item number `after`, as much as goes into one answer, and one item at least.
    pub fn after(&self, after: u64) -> Taken {
        let kept = self.kept();
        let oldest = kept.next - kept.items.len() as u64 + 1;
        let first = oldest.max(after.saturating_add(1)).min(kept.next + 1);
        let mut bytes = 0;
        let items = kept.items.iter().skip((first - oldest) as usize).take_while(|item| {
            let is_first = bytes == 0;
            bytes += item.get().len();
            is_first || bytes <= MOST_ANSWERED
        });
        Taken { first, newest: kept.next, items: items.cloned().collect() }
    }

    /// Number of the newest.
    pub fn newest(&self) -> u64 {
        self.kept().next
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(taken: &Taken) -> Vec<&str> {
        taken.items.iter().map(|item| item.get()).collect()
    }

    #[test]
    fn what_came_after_a_number_is_handed_out() {
        let ring = Ring::default();
        assert_eq!((ring.after(0).first, ring.after(0).newest), (1, 0));
        for number in 1..=3 {
            ring.push(&number);
        }
        assert_eq!(numbers(&ring.after(0)), ["1", "2", "3"]);
        let later = ring.after(2);
        assert_eq!((later.first, later.newest, numbers(&later)), (3, 3, vec!["3"]));
        assert!(ring.after(3).items.is_empty());
        assert_eq!(ring.after(u64::MAX).first, 4, "a number that was never given");
    }

    #[test]
    fn what_was_overrun_is_a_hole_that_can_be_seen() {
        let ring = Ring::default();
        let big = "x".repeat(MOST_BYTES / 4);
        for _ in 0..10 {
            ring.push(&big);
        }
        let taken = ring.after(2);
        assert_eq!((taken.first, taken.newest), (8, 10), "three of ten have room");
        assert_eq!(taken.items.len(), 1, "one of them fills an answer");
        ring.push(&1);
        assert_eq!(numbers(&ring.after(10)), ["1"]);
    }

    #[test]
    fn an_answer_is_bounded_and_the_rest_is_asked_for() {
        let ring = Ring::default();
        let item = "x".repeat(MOST_ANSWERED / 3);
        for _ in 0..5 {
            ring.push(&item);
        }
        let (mut after, mut answers) = (0, 0);
        while after < ring.newest() {
            let taken = ring.after(after);
            assert!(!taken.items.is_empty());
            after = taken.first + taken.items.len() as u64 - 1;
            answers += 1;
        }
        assert_eq!(answers, 3, "two at a time");
    }
}
