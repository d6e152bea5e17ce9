//! The requests on a connection.
use crate::transport::reactor::TaskId;
use crate::transport::{Breach, Outcome, Reply, Want};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Names a request on its connection until it is taken off it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(usize);

/// What has to be known of a request.
pub struct Opened {
    /// Woken when something happens to it.
    pub task: TaskId,
    /// It is a HEAD request.
    pub head: bool,
    /// What is kept of the answer.
    pub want: Want,
    /// Where it is kept.
    pub reply: Reply,
    /// Its body waits for an interim answer.
    pub expects: bool,
}

#[expect(clippy::struct_excessive_bools, reason = "independent facts about two directions")]
/// A request and what has come of its answer.
pub struct Stream {
    /// Its number on the connection.
    pub id: u32,
    /// As it was opened.
    pub opened: Opened,
    /// How it ended, once it has.
    pub outcome: Option<Outcome>,
    /// How the answer broke the protocol, if that is how it ended.
    pub breach: Option<Breach>,
    /// The server says that it has not seen the request.
    pub unprocessed: bool,
    /// 0 before the final head of the answer.
    pub status: u16,
    /// The first byte of the answer.
    pub first_byte_ns: Option<u64>,
    /// The last byte of it.
    pub end_ns: u64,
    /// Bytes of its frames, sent or about to be.
    pub bytes_out: u64,
    /// Bytes of its frames, received.
    pub bytes_in: u64,
    /// As the answer names it.
    pub instance: Option<u16>,
    /// Of the body, as announced.
    pub length: Option<u64>,
    /// Of the body, so far.
    pub body_bytes: u64,
    /// As RFC 9113 counts them, over all heads and trailers.
    pub header_bytes: u64,
    /// Bytes of the body that may still be sent.
    pub window: i64,
    /// Bytes that the server may still send.
    pub credit: i64,
    /// The request has been sent to its end.
    pub sent: bool,
    /// Its body waits for room.
    pub blocked: bool,
    /// The server has said that it wants the body, or has begun to answer without it.
    pub continued: bool,
}

/// All of a connection.
#[derive(Default)]
pub(super) struct Streams {
    slots: Vec<Option<Box<Stream>>>,
    free: Vec<usize>,
    /// Those whose answers are not complete.
    live: HashMap<u32, usize, BuildHasherDefault<IdHasher>>,
    /// Where to begin with those that wait for room, so that each gets its turn.
    turn: usize,
}

impl Stream {
    fn new(id: u32, opened: Opened, window: i64, credit: i64) -> Self {
        Self {
            id,
            opened,
            outcome: None,
            breach: None,
            unprocessed: false,
            status: 0,
            first_byte_ns: None,
            end_ns: 0,
            bytes_out: 0,
            bytes_in: 0,
            instance: None,
            length: None,
            body_bytes: 0,
            header_bytes: 0,
            window,
            credit,
            sent: false,
            blocked: false,
            continued: false,
        }
    }

    /// Notes bytes that belong to it.
    pub(super) fn arrived(&mut self, bytes: usize, now_ns: u64) {
        self.first_byte_ns.get_or_insert(now_ns);
        self.end_ns = now_ns;
        self.bytes_in += bytes as u64;
    }
}

impl Streams {
    /// Number of those whose answers are not complete.
    pub fn live(&self) -> usize {
        self.live.len()
    }

    /// Adds one.
    pub fn open(&mut self, id: u32, opened: Opened, window: i64, credit: i64) -> Key {
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        // Its place is used again and again: no allocation for a request.
        match &mut self.slots[at] {
            Some(old) => **old = Stream::new(id, opened, window, credit),
            empty => *empty = Some(Box::new(Stream::new(id, opened, window, credit))),
        }
        self.live.insert(id, at);
        Key(at)
    }

    /// One that was opened and not yet closed.
    pub fn get(&mut self, key: Key) -> Option<&mut Stream> {
        self.slots.get_mut(key.0)?.as_deref_mut()
    }

    /// As [`Streams::get`].
    pub fn peek(&self, key: Key) -> Option<&Stream> {
        self.slots.get(key.0)?.as_deref()
    }

    /// One whose answer is not complete.
    pub fn find(&mut self, id: u32) -> Option<&mut Stream> {
        let at = self.live.get(&id)?;
        self.slots[*at].as_deref_mut()
    }

    /// It has ended; gives the task to be woken.
    pub fn end(&mut self, id: u32, outcome: Outcome) -> Option<TaskId> {
        let at = self.live.remove(&id)?;
        let stream = self.slots[at].as_deref_mut()?;
        stream.outcome = Some(outcome);
        Some(stream.opened.task)
    }

    /// Nobody will ask for it any more.
    pub fn close(&mut self, key: Key) {
        if let Some(stream) = self.slots[key.0].as_deref() {
            self.live.remove(&stream.id);
            self.free.push(key.0);
        }
    }

    /// Numbers of those whose answers are not complete.
    pub fn ids(&self) -> Vec<u32> {
        self.live.keys().copied().collect()
    }

    /// Adds to what may be sent on each; false if that is more than can be.
    pub fn widen(&mut self, by: i64) -> bool {
        let mut good = true;
        for at in self.live.values() {
            if let Some(stream) = self.slots[*at].as_deref_mut() {
                stream.window += by;
                good &= stream.window <= super::session::MOST_WINDOW;
            }
        }
        good
    }

    /// The tasks of those that wait for room, each time beginning with another.
    pub fn unblock(&mut self) -> Vec<TaskId> {
        let count = self.slots.len().max(1);
        self.turn = (self.turn + 1) % count;
        let mut tasks = Vec::new();
        for at in (self.turn..count).chain(0..self.turn) {
            let Some(stream) = self.slots.get_mut(at).and_then(Option::as_deref_mut) else { continue };
            if std::mem::take(&mut stream.blocked) && stream.outcome.is_none() {
                tasks.push(stream.opened.task);
            }
        }
        tasks
    }
}

/// Numbers of streams are spread well enough by one multiplication.
#[derive(Default)]
pub(super) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, id: u32) {
        self.0 = (self.0 ^ u64::from(id)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
