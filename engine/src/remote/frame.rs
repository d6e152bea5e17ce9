//! What goes over the connection: messages (JSON) and pieces of files, each behind its kind and its length.
use serde_json::Value;
use std::io::{self, ErrorKind, Read, Write};

/// Of a message.
pub const MESSAGE_BYTES: usize = 1 << 20;
/// Of a message from somebody who has not shown the token yet.
pub const GREETING_BYTES: usize = 4 << 10;
/// Of a piece of a file.
pub const PIECE_BYTES: usize = 1 << 20;
/// The kind, and the length as u32, little-endian.
const HEADER_BYTES: usize = 5;

/// What was received.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    /// JSON.
    Message(Vec<u8>),
    /// Some bytes of a file.
    Piece(Vec<u8>),
}

/// Why nothing could be received. After any of these the connection is of no more use.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// Between two frames.
    #[error("the connection has ended")]
    Ended,
    /// Within one.
    #[error("the connection ended within a frame")]
    Torn,
    /// Not ours.
    #[error("a frame of kind {0}; known are {MESSAGE} (message) and {PIECE} (piece of a file)")]
    Kind(u8),
    /// More than anybody of ours sends.
    #[error("a frame of {found} bytes; at most {most} are allowed here")]
    TooLong {
        /// Its length.
        found: usize,
        /// The bound.
        most: usize,
    },
    /// The connection itself.
    #[error(transparent)]
    Io(#[from] io::Error),
}

const MESSAGE: u8 = b'M';
const PIECE: u8 = b'P';

/// Receives one frame; a message has at most `most` bytes.
pub fn read(from: &mut impl Read, most: usize) -> Result<Frame, FrameError> {
    let mut header = [0; HEADER_BYTES];
    fill(from, &mut header, FrameError::Ended)?;
    let [kind, length @ ..] = header;
    let most = match kind {
        MESSAGE => most,
        PIECE => PIECE_BYTES,
        other => return Err(FrameError::Kind(other)),
    };
    let found = u32::from_le_bytes(length) as usize;
    if found > most {
        return Err(FrameError::TooLong { found, most });
    }
    let mut payload = vec![0; found];
    fill(from, &mut payload, FrameError::Torn)?;
    Ok(if kind == MESSAGE { Frame::Message(payload) } else { Frame::Piece(payload) })
}

/// Fills all of a buffer; `ended` is what it means that not even its first byte comes.
fn fill(from: &mut impl Read, buffer: &mut [u8], ended: FrameError) -> Result<(), FrameError> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) if filled == 0 => return Err(ended),
            Ok(0) => return Err(FrameError::Torn),
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Sends a message that is not written out yet.
pub fn say(to: &mut impl Write, message: &Value) -> io::Result<()> {
    write_message(to, message.to_string().as_bytes())
}

/// Sends a message.
pub fn write_message(to: &mut impl Write, message: &[u8]) -> io::Result<()> {
    write(to, MESSAGE, message)
}

/// Sends a piece of a file.
pub fn write_piece(to: &mut impl Write, piece: &[u8]) -> io::Result<()> {
    write(to, PIECE, piece)
}

/// As one write: a small frame is one packet.
fn write(to: &mut impl Write, kind: u8, payload: &[u8]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
    bytes.push(kind);
    bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    bytes.extend_from_slice(payload);
    to.write_all(&bytes)?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(bytes: &[u8]) -> String {
        read(&mut &bytes[..], 10).expect_err("no frame").to_string()
    }

    #[test]
    fn frames_come_back_as_they_were_sent() {
        let mut sent = Vec::new();
        write_message(&mut sent, b"{}").expect("a buffer");
        write_piece(&mut sent, &[7; 100]).expect("a buffer");
        write_message(&mut sent, b"").expect("a buffer");
        let mut from = &sent[..];
        assert_eq!(read(&mut from, 10).expect("one"), Frame::Message(b"{}".to_vec()));
        assert_eq!(read(&mut from, 10).expect("two"), Frame::Piece(vec![7; 100]));
        assert_eq!(read(&mut from, 10).expect("three"), Frame::Message(Vec::new()));
        assert!(matches!(read(&mut from, 10), Err(FrameError::Ended)));
    }

    #[test]
    fn what_is_no_frame_is_told_apart() {
        assert_eq!(told(b"M\x05\0\0\0{}"), "the connection ended within a frame");
        assert_eq!(told(b"M\x05"), "the connection ended within a frame");
        assert_eq!(told(b"M\x05\0\0\0"), "the connection ended within a frame");
        assert_eq!(told(b"M\x0b\0\0\0"), "a frame of 11 bytes; at most 10 are allowed here");
        assert_eq!(told(b"P\x01\0\x10\0"), "a frame of 1048577 bytes; at most 1048576 are allowed here");
        assert_eq!(
            told(b"GET / HTTP/1.1\r\n"),
            "a frame of kind 71; known are 77 (message) and 80 (piece of a file)"
        );
    }
}
