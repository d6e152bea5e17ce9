//! Requests that are held: in the order in which they came, and each may leave from wherever it stands.

use std::collections::BTreeMap;

/// Names a held request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// A held request.
#[derive(Debug)]
pub struct Held<W> {
    /// When it came.
    pub arrived_ns: u64,
    /// Who waits for it.
    pub waiter: W,
}

/// The requests that are held.
#[derive(Debug)]
pub struct Queue<W> {
    held: BTreeMap<Ticket, Held<W>>,
    next: u64,
}

impl<W> Default for Queue<W> {
    fn default() -> Self {
        Self { held: BTreeMap::new(), next: 0 }
    }
}

impl<W> Queue<W> {
    /// How many are held.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Is none held?
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Holds one more, behind all others.
    pub fn push(&mut self, arrived_ns: u64, waiter: W) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.held.insert(ticket, Held { arrived_ns, waiter });
        ticket
    }

    /// The one that came first.
    pub fn pop(&mut self) -> Option<Held<W>> {
        self.held.pop_first().map(|(_, held)| held)
    }

    /// When the one that came first came.
    pub fn oldest_ns(&self) -> Option<u64> {
        self.held.first_key_value().map(|(_, held)| held.arrived_ns)
    }

    /// Takes one out of the row; `None` if it is no longer in it.
    pub fn leave(&mut self, ticket: Ticket) -> Option<Held<W>> {
        self.held.remove(&ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_stay_go_in_the_order_in_which_they_came() {
        let mut queue = Queue::default();
        let tickets: Vec<Ticket> = (0..5).map(|n| queue.push(n, n)).collect();
        assert_eq!(queue.leave(tickets[0]).map(|held| held.waiter), Some(0));
        assert_eq!(queue.leave(tickets[3]).map(|held| held.waiter), Some(3));
        assert_eq!(queue.oldest_ns(), Some(1));
        let order: Vec<u64> = std::iter::from_fn(|| queue.pop()).map(|held| held.waiter).collect();
        assert_eq!(order, [1, 2, 4]);
        assert!(queue.leave(tickets[1]).is_none(), "one that has gone cannot leave");
        assert!(queue.is_empty());
    }
}
