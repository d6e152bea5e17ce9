//! How: HTTP over nonblocking sockets, with a clock for every phase.
//!
//! `reactor` waits, `stream` carries bytes, `tls` hides them, `http1` knows the protocol and no sockets, `client` joins them; `fake` answers
//! without a network. What goes in is a [`Call`], what comes out an [`Exchange`] and, where somebody wants to look at the
//! answer, a [`Reply`].
pub mod client;
pub mod fake;
pub mod http1;
pub mod http2;
pub mod reactor;
pub mod resolver;
pub mod stream;
pub mod tls;

mod breach;
mod outcome;
mod reply;
pub use breach::Breach;
pub use outcome::{MAX_NAMED, Outcome, OutcomeNames};
pub use reply::{Reply, Want};

use crate::journey::{Fields, Outgoing, StepPlan};
use crate::record::row::NONE_U32;

/// Sends requests. One for each load thread; the real one is [`client::Client`], the other [`fake::Fake`].
pub trait Transport: 'static {
    /// The connections that one user keeps.
    type Lane;

    /// For a user or a session of this workload.
    fn lane(&self, workload: usize) -> Self::Lane;

    /// Another thread has something for this one: a resolver its answers, for example.
    fn on_bell(&self) {}

    /// Connections opened so far.
    fn connections_opened(&self) -> u64 {
        0
    }

    /// Sends one request and reads its answer, whatever becomes of it. `reply` is filled as far as the step wants.
    fn exchange(
        &self,
        lane: &mut Self::Lane,
        call: &Call<'_>,
        reply: &mut Reply,
    ) -> impl Future<Output = Exchange>;
}

/// A request to be sent.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// How it is sent, and what is wanted of the answer.
    pub step: &'a StepPlan,
    /// What is sent.
    pub outgoing: &'a Outgoing,
    /// It is the same every time: the transport may have it ready.
    pub is_static: bool,
    /// Headers of this request alone, such as cookies.
    pub extra: &'a Fields,
    /// Where it goes.
    pub target: usize,
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
    /// TLS handshake, or `NONE_U32`.
    pub tls_us: u32,
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
    /// Redirects that were followed.
    pub redirects: u8,
    /// It went over HTTP/2.
    pub http2: bool,
    /// Whether an instance had to start for it, where that is known.
    pub cold: Option<bool>,
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
            tls_us: NONE_U32,
            bytes_out: 0,
            bytes_in: 0,
            instance: None,
            reused: false,
            attempt: 0,
            redirects: 0,
            http2: false,
            cold: None,
        }
    }
}

impl Exchange {
    /// Another attempt begins: bytes add up, all else is of the attempt that the row ends with.
    fn try_again(&mut self) {
        self.attempt += 1;
        self.status = 0;
        self.first_byte_ns = None;
        (self.dns_us, self.connect_us, self.tls_us) = (NONE_U32, NONE_U32, NONE_U32);
        self.http2 = false;
    }
}

/// What a row has only an outcome for; the reason becomes a finding, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// The generator's own machine ran out of something.
    Short(Shortage),
    /// A name has no address.
    Dns,
    /// A handshake failed.
    Tls,
    /// A proxy did not do what it was asked.
    Proxy,
    /// The other side speaks another protocol.
    Protocol,
    /// A source address is not one of this machine's.
    Source,
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
