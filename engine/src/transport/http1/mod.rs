//! HTTP/1.1 without sockets: bytes in, answers out.
mod body;
mod response;

pub use response::{Decoder, Facts, Fault, Progress};
