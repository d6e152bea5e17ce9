//! Wakes a reactor from another thread.
use super::{Interest, Reactor, SocketId, Wait};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::io;

/// An eventfd.
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    /// A silent bell.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// May be called from any thread, and often.
    pub fn ring(&self) {
        // It can only fail when 2⁶⁴ − 2 rings are pending: then it is ringing.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    #[cfg(test)]
    pub(super) fn fd(&self) -> &OwnedFd {
        &self.0
    }

    /// Makes the bell heard by a reactor.
    pub fn register(&self, rt: &Reactor) -> io::Result<SocketId> {
        rt.register(&self.0)
    }

    /// Waits for the next ring.
    pub async fn heard(&self, rt: &Reactor, id: SocketId) -> Wait {
        let wait = rt.socket(id, Interest::Read, u64::MAX).await;
        rt.clear_readable(id);
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.0, &mut count[..]);
        wait
    }
}
