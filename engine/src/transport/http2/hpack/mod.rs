//! HPACK, the compression of header fields (RFC 7541).
//!
//! An own one, since it is on the path of every request and answer: the encoder writes blocks that are rendered once and
//! copied ever after, which no dynamic table could be part of; the decoder gives names and values without keeping them.
mod decode;
mod encode;
mod huffman;
mod table;

pub use decode::Decoder;
pub use encode::{encode_field, encode_no_table};

/// A block that cannot be read: nothing that comes after it on the connection can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;
