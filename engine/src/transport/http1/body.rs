//! Where the body of an answer ends.
use super::Fault;
use crate::transport::Breach;

/// How the end of a body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// This many bytes are still to come.
    Length(u64),
    /// RFC 9112, section 7.1.
    Chunked(Chunk),
    /// The end of the connection.
    UntilClose,
}

/// Where in a chunked body we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chunk {
    /// In the size; digits seen so far.
    Size { size: u64, digits: u8 },
    /// After the size, up to the end of the line.
    Extension { size: u64 },
    /// In the data.
    Data { left: u64 },
    /// At the line end after the data.
    DataEnd,
    /// In a trailer line; whether it is empty so far.
    Trailer { empty: bool },
}

/// What a step through the framing found.
pub(super) struct Piece {
    /// Bytes used.
    pub used: usize,
    /// Of these, content: always the last ones.
    pub content: usize,
    /// The body is complete.
    pub done: bool,
}

impl Framing {
    /// Looks at the next piece of a body. `data` is not empty.
    pub fn advance(&mut self, data: &[u8]) -> Result<Piece, Fault> {
        match self {
            Self::UntilClose => Ok(Piece { used: data.len(), content: data.len(), done: false }),
            Self::Length(left) => {
                let take = data.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= take as u64;
                Ok(Piece { used: take, content: take, done: *left == 0 })
            }
            Self::Chunked(chunk) => chunk.advance(data),
        }
    }
}

impl Chunk {
    pub const START: Self = Self::Size { size: 0, digits: 0 };

    fn advance(&mut self, data: &[u8]) -> Result<Piece, Fault> {
        if let Self::Data { left } = self {
            let take = data.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= take as u64;
            if *left == 0 {
                *self = Self::DataEnd;
            }
            return Ok(Piece { used: take, content: take, done: false });
        }
        for (at, byte) in data.iter().enumerate() {
            if self.step(*byte)? {
                return Ok(Piece { used: at + 1, content: 0, done: true });
            }
            if matches!(self, Self::Data { .. }) {
                return Ok(Piece { used: at + 1, content: 0, done: false });
            }
        }
        Ok(Piece { used: data.len(), content: 0, done: false })
    }

    /// One byte outside of the data; true at the end of the body. A bare LF ends a line too.
    fn step(&mut self, byte: u8) -> Result<bool, Fault> {
        *self = match (*self, byte) {
            (Self::Size { size, digits }, b) if b.is_ascii_hexdigit() && digits < 16 => {
                let digit = u64::from((b as char).to_digit(16).unwrap_or(0));
                Self::Size { size: size << 4 | digit, digits: digits + 1 }
            }
            (Self::Size { size, digits: 1.. } | Self::Extension { size }, b'\n') => {
                if size == 0 {
                    Self::Trailer { empty: true }
                } else {
                    Self::Data { left: size }
                }
            }
            (Self::Size { size, digits: 1.. }, b' ' | b'\t' | b';' | b'\r')
            | (Self::Extension { size }, _) => Self::Extension { size },
            (Self::DataEnd, b'\r') => Self::DataEnd,
            (Self::DataEnd, b'\n') => Self::START,
            (Self::Trailer { empty: true }, b'\n') => return Ok(true),
            (Self::Trailer { .. }, b'\n') => Self::Trailer { empty: true },
            (Self::Trailer { empty }, b'\r') => Self::Trailer { empty },
            (Self::Trailer { .. }, _) => Self::Trailer { empty: false },
            _ => return Err(Fault::Protocol(Breach::Chunk)),
        };
        Ok(false)
    }
}
