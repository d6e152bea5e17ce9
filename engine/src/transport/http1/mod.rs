//! HTTP/1.1 without sockets: bytes in, answers out.
mod body;
mod request;
mod response;

pub use request::{write_fields, write_head, write_lines};
pub use response::{Decoder, Facts, Fault, Progress};
