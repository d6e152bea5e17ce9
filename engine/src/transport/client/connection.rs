//! An open connection.
use crate::transport::http1::Decoder;
use crate::transport::reactor::{Reactor, SocketId};
use crate::transport::stream::Stream;
use std::cell::Cell;
use std::rc::Rc;

/// Connections of a thread.
pub(super) struct Tally {
    pub open: Cell<usize>,
    pub opened: Cell<u64>,
    pub limit: usize,
}

impl Tally {
    pub fn new(limit: usize) -> Self {
        Self { open: Cell::new(0), opened: Cell::new(0), limit }
    }
}

/// A socket in the books of its thread: watched, and counted.
pub(super) struct Slot {
    pub id: SocketId,
    rt: Rc<Reactor>,
    tally: Rc<Tally>,
}

impl Slot {
    pub fn new(id: SocketId, rt: &Rc<Reactor>, tally: &Rc<Tally>) -> Self {
        tally.open.set(tally.open.get() + 1);
        tally.opened.set(tally.opened.get() + 1);
        Self { id, rt: Rc::clone(rt), tally: Rc::clone(tally) }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.rt.unregister(self.id);
        self.tally.open.set(self.tally.open.get() - 1);
    }
}

/// A connection and what belongs to it; closed when dropped.
pub struct Connection {
    /// Dropped first: a closed descriptor can be somebody else's at once.
    pub(super) slot: Slot,
    pub(super) stream: Stream,
    pub(super) id: SocketId,
    pub(super) target: usize,
    pub(super) endpoint: usize,
    /// Requests that it has served.
    pub(super) served: u64,
    /// When it was opened.
    pub(super) opened_ns: u64,
    pub(super) decoder: Decoder,
}

impl Connection {
    /// Whether an idle connection can be used: nothing unasked has arrived, and the other side has not closed.
    ///
    /// Costs a system call only after an event said that something happened.
    pub(super) fn is_usable(&mut self) -> bool {
        let rt = &self.slot.rt;
        if rt.is_hung_up(self.id) {
            return false;
        }
        if !rt.is_readable(self.id) {
            return true;
        }
        // The event may have told of bytes that were read before it was seen.
        let nothing = self.stream.is_silent();
        if nothing {
            rt.clear_readable(self.id);
        }
        nothing
    }
}
