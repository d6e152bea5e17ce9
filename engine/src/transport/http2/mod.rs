//! HTTP/2 (RFC 9113), as a client that makes load needs it: many streams on a connection, and little work for each.
//!
//! `hpack` and `frame` know the bytes, `session` is a connection without its socket, `streams` and `answer` what is known
//! of each request on it. [`crate::transport::client`] joins them with sockets. The framing is an own one since it *is*
//! the load engine: a request is copied into a buffer that all users of a connection share, an answer is read where it
//! lies, and nothing is allocated for either.
mod answer;
mod block;
mod control;
pub mod frame;
pub mod hpack;
mod request;
mod session;
mod streams;
mod upload;

pub use request::write_head;
pub use session::{Session, Terms};
pub use streams::{Key, Opened, Stream};

use super::{Breach, Outcome};

/// Codes of errors (section 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the RFC has a sentence on each")]
pub enum ErrorCode {
    NoError = 0,
    Protocol = 1,
    FlowControl = 3,
    FrameSize = 6,
    Refused = 7,
    Cancel = 8,
    Compression = 9,
    EnhanceYourCalm = 11,
    Http11Required = 13,
}

/// Nothing on the connection can be trusted any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionError {
    /// What the other side is told.
    pub code: ErrorCode,
    /// What the requests on it end as.
    pub outcome: Outcome,
    /// How the other side broke the protocol, if it did.
    pub breach: Option<Breach>,
    /// For people.
    pub what: &'static str,
}

impl ConnectionError {
    /// An error of the other side's.
    pub fn new(code: ErrorCode, what: &'static str) -> Self {
        let breach = match code {
            ErrorCode::FlowControl => Breach::Window,
            ErrorCode::FrameSize => Breach::Size,
            ErrorCode::Compression => Breach::Compression,
            ErrorCode::EnhanceYourCalm => Breach::Flood,
            ErrorCode::Http11Required => Breach::Version,
            ErrorCode::NoError | ErrorCode::Protocol | ErrorCode::Refused | ErrorCode::Cancel => {
                Breach::Frame
            }
        };
        Self { code, outcome: Outcome::Protocol, breach: Some(breach), what }
    }

    /// How the other side broke the protocol, for people.
    pub fn why(&self) -> Option<String> {
        self.breach.map(|breach| format!("{}: {}", breach.word(), self.what))
    }

    /// A frame that must not be there, or not be like that.
    pub fn protocol(what: &'static str) -> Self {
        Self::new(ErrorCode::Protocol, what)
    }
}
