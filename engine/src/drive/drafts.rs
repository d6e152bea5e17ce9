//! Buffers for requests, lent by a thread to those of its sessions that have one in flight.
use crate::journey::{Fields, Outgoing};
use std::cell::RefCell;

/// Buffers kept at most.
const KEPT: usize = 64;
/// A buffer that has grown beyond this is not kept.
const KEPT_BYTES: usize = 256 * 1024;

/// What is made anew for each request.
#[derive(Default)]
pub struct Draft {
    /// The request, if it is not the same every time.
    pub outgoing: Outgoing,
    /// Headers of this request alone.
    pub extra: Fields,
}

#[expect(clippy::vec_box, reason = "they are moved in and out for every request")]
/// The buffers that nobody uses now.
#[derive(Default)]
pub struct Drafts(RefCell<Vec<Box<Draft>>>);

impl Drafts {
    /// An empty buffer.
    pub fn take(&self) -> Box<Draft> {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    /// Gives a buffer back.
    pub fn put(&self, mut draft: Box<Draft>) {
        let mut kept = self.0.borrow_mut();
        if kept.len() < KEPT && draft.outgoing.body.text_capacity() <= KEPT_BYTES {
            draft.outgoing.clear();
            draft.extra.clear();
            kept.push(draft);
        }
    }
}
