//! A connection without its socket: bytes in, bytes out, and the answers of its requests.
use super::block::Block;
use super::frame::{self, Frame, Head, PREFACE, Piece, Reader, kind, setting};
use super::hpack::Decoder;
use super::streams::{Key, Stream, Streams};
use super::{ConnectionError, ErrorCode};
use crate::transport::client::Instances;
use crate::transport::reactor::TaskId;
use crate::transport::{Breach, Outcome};
use std::cell::RefCell;
use std::rc::Rc;

/// The largest window there is.
pub(super) const MOST_WINDOW: i64 = 0x7fff_ffff;
/// Of a connection and of its streams, until something else is said.
const DEFAULT_WINDOW: i64 = 65_535;
/// Numbers of streams end here.
pub(super) const LAST_ID: u32 = 0x7fff_ffff;
/// Frames in a row that bring nothing forward: more is an attack, or a server that has lost its way.
const MOST_IDLE_FRAMES: u32 = 10_000;
/// Answers to PING and SETTINGS that the other side does not read.
const MOST_UNREAD: usize = 1024 * 1024;

/// What all connections of a thread have in common.
pub struct Terms {
    /// The header that names the instance, in lower case.
    pub instance_header: Option<String>,
    /// Bound on all heads and trailers of an answer.
    pub max_header_bytes: u64,
    /// Bound on the content.
    pub max_body_bytes: u64,
    /// Names of instances.
    pub instances: Rc<RefCell<Instances>>,
}

/// See the module.
pub struct Session {
    pub(super) terms: Rc<Terms>,
    reader: Reader,
    pub(super) decoder: Decoder,
    pub(super) block: Option<Block>,
    pub(super) streams: Streams,
    pub(super) next_id: u32,
    pub(super) out: Vec<u8>,
    pub(super) out_sent: usize,
    /// What may be sent on the connection, and at first on a stream.
    pub(super) window: i64,
    pub(super) peer_window: i64,
    /// What the other side may send on the connection.
    credit: i64,
    pub(super) max_streams: Option<u32>,
    /// The other side has allowed a smaller table than the default and has not been told that it is not used.
    pub(super) table_shrunk: bool,
    pub(super) draining: bool,
    /// Number of the last request that the server says it takes, once it has.
    pub(super) last_taken: Option<u32>,
    pub(super) failed: Option<ConnectionError>,
    pub(super) has_blocked: bool,
    pub(super) idle_frames: u32,
    pub(super) woken: Vec<TaskId>,
}

impl Session {
    /// A connection that has just been opened: the preface is ready to be sent.
    pub fn new(terms: Rc<Terms>) -> Self {
        let mut out = PREFACE.to_vec();
        let list = u32::try_from(terms.max_header_bytes).unwrap_or(u32::MAX);
        let settings = [
            (setting::ENABLE_PUSH, 0),
            (setting::INITIAL_WINDOW_SIZE, MOST_WINDOW as u32),
            (setting::MAX_HEADER_LIST_SIZE, list),
        ];
        let pair = |(id, value): (u16, u32)| id.to_be_bytes().into_iter().chain(value.to_be_bytes());
        let payload: Vec<u8> = settings.into_iter().flat_map(pair).collect();
        frame::write(kind::SETTINGS, 0, 0, &payload, &mut out);
        let mut session = Self {
            terms,
            reader: Reader::default(),
            decoder: Decoder::default(),
            block: None,
            streams: Streams::default(),
            next_id: 1,
            out,
            out_sent: 0,
            window: DEFAULT_WINDOW,
            peer_window: DEFAULT_WINDOW,
            credit: DEFAULT_WINDOW,
            max_streams: None,
            table_shrunk: false,
            draining: false,
            last_taken: None,
            failed: None,
            has_blocked: false,
            idle_frames: 0,
            woken: Vec::new(),
        };
        session.replenish();
        session
    }

    /// Requests that can be begun now: one until the server has said how many it allows.
    pub fn room(&self) -> usize {
        if self.draining || self.failed.is_some() || self.next_id > LAST_ID - 2 {
            return 0;
        }
        let most = self.max_streams.map_or(1, |most| most as usize);
        most.saturating_sub(self.streams.live())
    }

    /// No request will be begun any more.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// How many requests the server has taken before it said that it takes no more, if it has.
    pub fn taken(&self) -> Option<u64> {
        self.last_taken.map(|last| u64::from(last).div_ceil(2))
    }

    /// Whether the server has said what it allows.
    pub fn is_settled(&self) -> bool {
        self.max_streams.is_some()
    }

    /// Number of requests whose answers are not complete.
    pub fn live(&self) -> usize {
        self.streams.live()
    }

    /// Nothing more can be expected of the connection.
    pub fn is_over(&self) -> bool {
        self.failed.is_some() || (self.draining && self.streams.live() == 0)
    }

    /// The error that ended it.
    pub fn failure(&self) -> Option<ConnectionError> {
        self.failed
    }

    /// What is known of a request.
    pub fn stream(&self, key: Key) -> Option<&Stream> {
        self.streams.peek(key)
    }

    /// As [`Session::stream`].
    pub fn stream_mut(&mut self, key: Key) -> Option<&mut Stream> {
        self.streams.get(key)
    }

    /// Tasks to which something has happened.
    pub fn take_woken(&mut self) -> impl Iterator<Item = TaskId> {
        self.woken.drain(..)
    }

    /// Whether there are any.
    pub fn has_woken(&self) -> bool {
        !self.woken.is_empty()
    }

    /// The connection has ended, as `outcome` for all that is on it.
    pub fn lose(&mut self, outcome: Outcome) {
        if self.failed.is_none() {
            let what = "the connection has ended";
            self.failed = Some(ConnectionError { code: ErrorCode::NoError, outcome, breach: None, what });
            self.end_all(outcome);
        }
    }

    /// Takes in what was received.
    pub fn feed(&mut self, bytes: &[u8], now_ns: u64) -> Result<(), ConnectionError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let mut reader = std::mem::take(&mut self.reader);
        let result = self.frames(&mut reader, bytes, now_ns);
        self.reader = reader;
        result.inspect_err(|error| self.fail(*error))
    }

    fn frames(&mut self, reader: &mut Reader, mut input: &[u8], now_ns: u64) -> Result<(), ConnectionError> {
        while let Some(frame) = reader.next(&mut input)? {
            match frame {
                Frame::Data(piece) => self.data(&piece, now_ns)?,
                Frame::Whole(head, payload) => self.whole(head, payload, now_ns)?,
            }
            if self.idle_frames > MOST_IDLE_FRAMES || self.out.len() - self.out_sent > MOST_UNREAD {
                return Err(ConnectionError::new(ErrorCode::EnhanceYourCalm, "frames that serve no request"));
            }
        }
        Ok(())
    }

    fn fail(&mut self, error: ConnectionError) {
        let mut payload = [0; 8];
        payload[4..].copy_from_slice(&(error.code as u32).to_be_bytes());
        frame::write(kind::GOAWAY, 0, 0, &payload, &mut self.out);
        self.failed = Some(error);
        self.end_all(error.outcome);
    }

    fn end_all(&mut self, outcome: Outcome) {
        for id in self.streams.ids() {
            self.woken.extend(self.streams.end(id, outcome));
        }
    }

    fn whole(&mut self, head: Head, payload: &[u8], now_ns: u64) -> Result<(), ConnectionError> {
        if self.max_streams.is_none() && head.kind != kind::SETTINGS {
            return Err(ConnectionError::protocol("SETTINGS must come first"));
        }
        if self.block.is_some() != (head.kind == kind::CONTINUATION) {
            return Err(ConnectionError::protocol("CONTINUATION without a beginning, or none after it"));
        }
        self.idle_frames += 1;
        match head.kind {
            kind::HEADERS => self.headers(head, payload, now_ns),
            kind::CONTINUATION => self.continuation(head, payload, now_ns),
            kind::RST_STREAM => self.reset_by_peer(head, payload, now_ns),
            kind::SETTINGS => self.settings(head, payload),
            kind::PUSH_PROMISE => Err(ConnectionError::protocol("PUSH_PROMISE was not allowed")),
            kind::PING => self.ping(head, payload),
            kind::GOAWAY => self.goaway(head, payload),
            kind::WINDOW_UPDATE => self.window_update(head, payload),
            // PRIORITY, and what is not known, says nothing to a client.
            _ => Ok(()),
        }
    }

    /// The number of a stream that was opened once.
    pub(super) fn known(&self, head: Head) -> Result<u32, ConnectionError> {
        if head.stream % 2 == 1 && head.stream < self.next_id {
            Ok(head.stream)
        } else {
            Err(ConnectionError::protocol("a frame for a stream that was never opened"))
        }
    }

    fn data(&mut self, piece: &Piece<'_>, now_ns: u64) -> Result<(), ConnectionError> {
        if self.max_streams.is_none() || self.block.is_some() {
            return Err(ConnectionError::protocol("DATA at the wrong time"));
        }
        self.known(Head { length: 0, kind: kind::DATA, flags: 0, stream: piece.stream })?;
        self.credit -= piece.flow as i64;
        if self.credit < 0 {
            return Err(ConnectionError::new(ErrorCode::FlowControl, "more DATA than the window allows"));
        }
        self.replenish();
        self.idle_frames = if piece.content.is_empty() { self.idle_frames + 1 } else { 0 };
        let Some(stream) = self.streams.find(piece.stream) else { return Ok(()) };
        stream.arrived(piece.wire, now_ns);
        stream.credit -= piece.flow as i64;
        stream.body_bytes += piece.content.len() as u64;
        if stream.opened.want.body {
            stream.opened.reply.body.extend_from_slice(piece.content);
        }
        // The answer to HEAD has no content, whatever it says about its length.
        let forbidden = stream.status == 0 || (stream.opened.head && !piece.content.is_empty());
        if forbidden || stream.credit < 0 {
            let (breach, code) = if forbidden {
                (Breach::Order, ErrorCode::Protocol)
            } else {
                (Breach::Window, ErrorCode::FlowControl)
            };
            self.refuse(piece.stream, breach, Some(code));
        } else if stream.body_bytes > self.terms.max_body_bytes {
            self.end(piece.stream, Outcome::TooLarge, Some(ErrorCode::Cancel));
        } else if piece.last {
            self.complete(piece.stream);
        } else if stream.credit < MOST_WINDOW / 2 {
            let more = MOST_WINDOW - stream.credit;
            stream.credit = MOST_WINDOW;
            frame::write(kind::WINDOW_UPDATE, 0, piece.stream, &(more as u32).to_be_bytes(), &mut self.out);
        }
        Ok(())
    }

    /// Lets the other side send on, long before it has to wait, but not for every frame.
    fn replenish(&mut self) {
        if self.credit < MOST_WINDOW / 2 {
            let more = MOST_WINDOW - self.credit;
            self.credit = MOST_WINDOW;
            frame::write(kind::WINDOW_UPDATE, 0, 0, &(more as u32).to_be_bytes(), &mut self.out);
        }
    }

    /// The answer has come to its end.
    pub(super) fn complete(&mut self, id: u32) {
        let Some(stream) = self.streams.find(id) else { return };
        let no_content = stream.opened.head || matches!(stream.status, 204 | 304);
        let short = stream.length.is_some_and(|length| length != stream.body_bytes) && !no_content;
        if short {
            self.refuse(id, Breach::Length, None);
        } else {
            self.end(id, Outcome::Answered, None);
        }
    }

    /// An answer breaks the rules; with a code the other side is told.
    pub(super) fn refuse(&mut self, id: u32, breach: Breach, code: Option<ErrorCode>) {
        if let Some(stream) = self.streams.find(id) {
            stream.breach = Some(breach);
        }
        self.end(id, Outcome::Protocol, code);
    }

    /// A request has ended; with a code the other side is told.
    pub(super) fn end(&mut self, id: u32, outcome: Outcome, code: Option<ErrorCode>) {
        if let Some(code) = code {
            if let Some(stream) = self.streams.find(id) {
                stream.sent = true;
            }
            self.reset(id, code);
        }
        self.woken.extend(self.streams.end(id, outcome));
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
