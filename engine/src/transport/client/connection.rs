//! An open connection.
use crate::transport::http1::Decoder;
use crate::transport::reactor::{Reactor, SocketId};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
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

/// A connection and what belongs to it; closed when dropped.
pub struct Connection {
    pub(super) fd: OwnedFd,
    pub(super) id: SocketId,
    pub(super) target: usize,
    pub(super) endpoint: usize,
    pub(super) served: u32,
    pub(super) decoder: Decoder,
    pub(super) rt: Rc<Reactor>,
    pub(super) tally: Rc<Tally>,
}

impl Connection {
    /// Whether an idle connection can be used: nothing unasked has arrived, and the other side has not closed.
    ///
    /// Costs a system call only after an event said that something happened.
    pub(super) fn is_usable(&self) -> bool {
        if self.rt.is_hung_up(self.id) {
            return false;
        }
        if !self.rt.is_readable(self.id) {
            return true;
        }
        // The event may have told of bytes that were read before it was seen.
        let mut byte = [0];
        let nothing = matches!(recv(&self.fd, &mut byte[..], RecvFlags::PEEK), Err(Errno::AGAIN));
        if nothing {
            self.rt.clear_readable(self.id);
        }
        nothing
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.rt.unregister(self.id);
        self.tally.open.set(self.tally.open.get() - 1);
    }
}
