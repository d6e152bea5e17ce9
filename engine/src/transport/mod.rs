//! How: HTTP/1.1 over nonblocking sockets, with a clock for every phase.
//!
//! `reactor` waits, `http1` knows the protocol and no sockets, `client` joins them; `fake` answers without a network.
pub mod client;
pub mod fake;
pub mod http1;
pub mod reactor;
pub mod resolver;

mod outcome;
pub use outcome::Outcome;

use crate::journey::StepPlan;
use crate::record::row::NONE_U32;

/// Sends requests. One for each load thread; the real one is [`client::Client`], the other [`fake::Fake`].
pub trait Transport: 'static {
    /// The connections that one user keeps.
    type Lane;

    /// For a user that keeps its connections to itself (`own`), or shares those of the thread.
    fn lane(&self, own: bool) -> Self::Lane;

    /// Another thread has something for this one: a resolver its answers, for example.
    fn on_bell(&self) {}

    /// Connections opened so far.
    fn connections_opened(&self) -> u64 {
        0
    }

    /// Sends one request and reads its answer, whatever becomes of it.
    fn exchange(&self, lane: &mut Self::Lane, call: &Call<'_>) -> impl Future<Output = Exchange>;
}

/// A request to be sent.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// What is sent and what is expected.
    pub step: &'a StepPlan,
    /// What the templates of the step gave; nothing if it has none.
    pub rendered: Option<&'a crate::journey::Rendered>,
    /// When the request is started, on the clock of the reactor.
    pub started_ns: u64,
    /// When it is cut off as `interrupted`.
    pub cut_ns: u64,
}

/// What became of a request. Times are points on the clock of the reactor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// How it ended.
    pub outcome: Outcome,
    /// 0 = no answer.
    pub status: u16,
    /// The first byte of the answer.
    pub first_byte_ns: Option<u64>,
    /// The end, whatever it was.
    pub end_ns: u64,
    /// Name resolution, or `NONE_U32`.
    pub dns_us: u32,
    /// TCP connect, or `NONE_U32`.
    pub connect_us: u32,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Id of the instance: as the answer names it, else the one connected to.
    pub instance: Option<u16>,
    /// The connection had served another request before.
    pub reused: bool,
    /// Attempts before this one.
    pub attempt: u8,
}

impl Exchange {
    /// Nothing has happened yet.
    pub fn new(started_ns: u64) -> Self {
        Self {
            outcome: Outcome::NotSent,
            status: 0,
            first_byte_ns: None,
            end_ns: started_ns,
            dns_us: NONE_U32,
            connect_us: NONE_U32,
            bytes_out: 0,
            bytes_in: 0,
            instance: None,
            reused: false,
            attempt: 0,
        }
    }
}

/// A resource of the generator's own machine that ran out: never the fault of what is under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shortage {
    /// File descriptors, or memory for sockets.
    Descriptors,
    /// Local ports.
    Ports,
    /// `limits.max_connections`.
    Connections,
}
