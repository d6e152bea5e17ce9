//! Buffers for answers, lent by a thread to those of its requests that are in flight.
use crate::transport::Reply;
use std::cell::RefCell;

/// A buffer that has grown beyond this is not kept.
const KEPT_BYTES: usize = 256 * 1024;
/// Buffers kept at most.
const KEPT: usize = 64;

/// The buffers that nobody uses now.
#[derive(Default)]
pub struct Replies(RefCell<Vec<Reply>>);

impl Replies {
    /// An empty buffer.
    pub fn take(&self) -> Reply {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    /// Gives a buffer back.
    pub fn put(&self, mut reply: Reply) {
        let mut kept = self.0.borrow_mut();
        if reply.body.capacity() <= KEPT_BYTES && kept.len() < KEPT {
            reply.clear();
            kept.push(reply);
        }
    }
}
