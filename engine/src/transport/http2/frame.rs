//! Frames (RFC 9113, section 4): read in place from whatever pieces a connection gives, and written.
use super::{ConnectionError, ErrorCode};
use crate::transport::Breach;

/// What a client says first.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes before the payload of every frame.
pub const HEAD_BYTES: usize = 9;
/// The default for the longest payload, and what this side accepts.
pub const MAX_PAYLOAD: usize = 16 * 1024;

/// Types of frames.
#[allow(missing_docs, reason = "section 6 of the RFC")]
pub mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH_PROMISE: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

/// Flags of frames.
#[allow(missing_docs, reason = "section 6 of the RFC")]
pub mod flag {
    pub const ACK: u8 = 1;
    pub const END_STREAM: u8 = 1;
    pub const END_HEADERS: u8 = 4;
    pub const PADDED: u8 = 8;
    pub const PRIORITY: u8 = 0x20;
}

/// Parameters of SETTINGS.
#[allow(missing_docs, reason = "section 6.5.2 of the RFC")]
pub mod setting {
    pub const HEADER_TABLE_SIZE: u16 = 1;
    pub const ENABLE_PUSH: u16 = 2;
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    pub const MAX_FRAME_SIZE: u16 = 5;
    pub const MAX_HEADER_LIST_SIZE: u16 = 6;
}

/// What precedes a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Bytes of the payload.
    pub length: usize,
    /// See [`kind`].
    pub kind: u8,
    /// See [`flag`].
    pub flags: u8,
    /// 0 = the connection.
    pub stream: u32,
}

impl Head {
    fn parse(b: [u8; HEAD_BYTES]) -> Self {
        Self {
            length: usize::from(b[0]) << 16 | usize::from(b[1]) << 8 | usize::from(b[2]),
            kind: b[3],
            flags: b[4],
            stream: u32::from_be_bytes([b[5], b[6], b[7], b[8]]) & 0x7fff_ffff,
        }
    }

    /// Appends it.
    pub fn write(self, out: &mut Vec<u8>) {
        let length = (self.length as u32).to_be_bytes();
        let stream = self.stream.to_be_bytes();
        out.extend_from_slice(&[length[1], length[2], length[3], self.kind, self.flags]);
        out.extend_from_slice(&stream);
    }

    /// Whether a flag is set.
    pub fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame with a short payload.
pub fn write(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    Head { length: payload.len(), kind, flags, stream }.write(out);
    out.extend_from_slice(payload);
}

/// What a connection gave.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A piece of a DATA frame.
    Data(Piece<'a>),
    /// Any other frame, complete.
    Whole(Head, &'a [u8]),
}

/// A piece of a DATA frame; long ones are given as they come.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Of the frame.
    pub stream: u32,
    /// Without padding.
    pub content: &'a [u8],
    /// Bytes of the piece with padding: those that count for flow control.
    pub flow: usize,
    /// Bytes of the piece as they were on the wire.
    pub wire: usize,
    /// It is the end of the stream.
    pub last: bool,
}

/// Cuts a stream of bytes into frames.
#[derive(Default)]
pub struct Reader {
    /// Of a frame that came in pieces: its head, and its payload if it is none of DATA.
    partial: Vec<u8>,
    data: Option<Data>,
}

/// Where in a DATA frame we are.
#[derive(Clone, Copy)]
struct Data {
    stream: u32,
    content: usize,
    padding: usize,
    end: bool,
    /// Bytes seen that have not been given with a piece: of the head, and the length of the padding.
    wire: usize,
    flow: usize,
    /// The length of the padding is still to come.
    padded: bool,
}

impl Reader {
    /// The next frame, or piece of one, of `input`, which is moved on; none if there is not enough.
    pub fn next<'r, 'i: 'r>(
        &'r mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Frame<'r>>, ConnectionError> {
        if self.data.is_some() {
            return self.piece(input);
        }
        if !self.partial.is_empty() {
            return self.rest(input);
        }
        let Some((bytes, payload)) = input.split_first_chunk::<HEAD_BYTES>() else {
            self.partial.extend_from_slice(input);
            *input = &[];
            return Ok(None);
        };
        let head = checked(Head::parse(*bytes))?;
        if head.kind == kind::DATA {
            *input = payload;
            return self.begin_data(head, input);
        }
        if let Some((payload, rest)) = payload.split_at_checked(head.length) {
            *input = rest;
            return Ok(Some(Frame::Whole(head, payload)));
        }
        self.partial.extend_from_slice(input);
        *input = &[];
        Ok(None)
    }

    /// Goes on with a frame whose beginning came before.
    fn rest<'r, 'i: 'r>(&'r mut self, input: &mut &'i [u8]) -> Result<Option<Frame<'r>>, ConnectionError> {
        // What the last call completed has been used by now.
        let complete = |partial: &[u8]| {
            let head = partial.first_chunk::<HEAD_BYTES>().map(|b| Head::parse(*b));
            head.filter(|head| partial.len() == HEAD_BYTES + head.length)
        };
        if complete(&self.partial).is_some() {
            self.partial = Vec::new();
            return self.next(input);
        }
        self.take(HEAD_BYTES, input);
        let Some(bytes) = self.partial.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let head = checked(Head::parse(*bytes))?;
        if head.kind == kind::DATA {
            self.partial = Vec::new();
            return self.begin_data(head, input);
        }
        self.take(HEAD_BYTES + head.length, input);
        Ok(complete(&self.partial).map(|head| Frame::Whole(head, &self.partial[HEAD_BYTES..])))
    }

    /// Moves bytes over until there are so many of the frame.
    fn take(&mut self, want: usize, input: &mut &[u8]) {
        let missing = want.saturating_sub(self.partial.len()).min(input.len());
        let (taken, rest) = input.split_at(missing);
        self.partial.extend_from_slice(taken);
        *input = rest;
    }

    fn begin_data<'r, 'i: 'r>(
        &'r mut self,
        head: Head,
        input: &mut &'i [u8],
    ) -> Result<Option<Frame<'r>>, ConnectionError> {
        if head.stream == 0 {
            return Err(ConnectionError::protocol("DATA without a stream"));
        }
        let padded = head.has(flag::PADDED);
        if padded && head.length == 0 {
            return Err(ConnectionError::new(ErrorCode::FrameSize, "padding in an empty frame"));
        }
        self.data = Some(Data {
            stream: head.stream,
            content: head.length - usize::from(padded),
            padding: 0,
            end: head.has(flag::END_STREAM),
            wire: HEAD_BYTES,
            flow: 0,
            padded,
        });
        self.piece(input)
    }

    fn piece<'r, 'i: 'r>(&'r mut self, input: &mut &'i [u8]) -> Result<Option<Frame<'r>>, ConnectionError> {
        let Some(mut data) = self.data.take() else { return Ok(None) };
        if data.padded
            && let Some((padding, rest)) = input.split_first()
        {
            data.padded = false;
            data.padding = usize::from(*padding);
            data.flow += 1;
            data.wire += 1;
            data.content = data
                .content
                .checked_sub(data.padding)
                .ok_or(ConnectionError::protocol("more padding than payload"))?;
            *input = rest;
        }
        let nothing_left = !data.padded && data.content == 0 && data.padding == 0;
        if input.is_empty() && !nothing_left {
            self.data = Some(data);
            return Ok(None);
        }
        let (content, rest) = input.split_at(data.content.min(input.len()));
        let (padding, rest) = rest.split_at(data.padding.min(rest.len()));
        *input = rest;
        data.content -= content.len();
        data.padding -= padding.len();
        let bytes = content.len() + padding.len();
        let done = data.content == 0 && data.padding == 0;
        let piece = Piece {
            stream: data.stream,
            content,
            flow: data.flow + bytes,
            wire: data.wire + bytes,
            last: done && data.end,
        };
        (data.flow, data.wire) = (0, 0);
        self.data = (!done).then_some(data);
        Ok(Some(Frame::Data(piece)))
    }
}

/// No frame is longer than what was allowed.
fn checked(head: Head) -> Result<Head, ConnectionError> {
    // "HTT", and "P" as the type.
    if head.length == 0x0048_5454 && head.kind == b'P' {
        let error = ConnectionError::new(ErrorCode::FrameSize, "the server answers in HTTP/1.1");
        return Err(ConnectionError { breach: Some(Breach::Version), ..error });
    }
    if head.length > MAX_PAYLOAD {
        return Err(ConnectionError::new(ErrorCode::FrameSize, "a frame of more than 16384 bytes"));
    }
    Ok(head)
}

/// The payload of HEADERS without padding and priority; none if they are longer than it.
pub fn unpadded(head: Head, payload: &[u8]) -> Option<&[u8]> {
    let (mut rest, mut padding) = (payload, 0);
    if head.has(flag::PADDED) {
        let (length, after) = rest.split_first()?;
        (rest, padding) = (after, usize::from(*length));
    }
    if head.has(flag::PRIORITY) {
        rest = rest.get(5..)?;
    }
    rest.get(..rest.len().checked_sub(padding)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> Vec<u8> {
        let mut bytes = Vec::new();
        write(kind::SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100], &mut bytes);
        write(kind::HEADERS, flag::END_HEADERS, 1, &[0x88], &mut bytes);
        write(kind::DATA, flag::PADDED, 1, b"\x03hello\0\0\0", &mut bytes);
        write(kind::DATA, 0, 1, b"", &mut bytes);
        write(kind::DATA, flag::END_STREAM, 1, &[7; 300], &mut bytes);
        write(kind::PING, 0, 0, &[1; 8], &mut bytes);
        bytes
    }

    /// Frames as text, with the pieces of a stream put together.
    fn read(bytes: &[u8], step: usize) -> (Vec<String>, usize, usize) {
        let (mut reader, mut seen, mut flow, mut wire) = (Reader::default(), Vec::new(), 0, 0);
        let mut body = Vec::new();
        for mut input in bytes.chunks(step) {
            while let Some(frame) = reader.next(&mut input).expect("good frames") {
                match frame {
                    Frame::Whole(head, payload) => seen.push(format!("{} {payload:?}", head.kind)),
                    Frame::Data(piece) => {
                        body.extend_from_slice(piece.content);
                        flow += piece.flow;
                        wire += piece.wire;
                        if piece.last {
                            seen.push(format!("body {body:?}"));
                        }
                    }
                }
            }
        }
        (seen, flow, wire)
    }

    #[test]
    fn pieces_of_any_size_give_the_same_frames() {
        let bytes = stream();
        let whole = read(&bytes, bytes.len());
        assert_eq!((whole.0.len(), whole.1, whole.2), (4, 309, 309 + 27));
        assert!(whole.0[2].starts_with("body [104, 101, 108, 108, 111, 7"));
        for step in 1..bytes.len() {
            assert_eq!(read(&bytes, step), whole, "in pieces of {step} bytes");
        }
    }

    #[test]
    fn what_no_frame_may_be_is_refused() {
        let mut long = Vec::new();
        Head { length: MAX_PAYLOAD + 1, kind: 99, flags: 0, stream: 1 }.write(&mut long);
        let mut padded = Vec::new();
        write(kind::DATA, flag::PADDED, 1, &[9, 0, 0], &mut padded);
        let mut nameless = Vec::new();
        write(kind::DATA, 0, 0, b"x", &mut nameless);
        for (bytes, code) in [
            (&long, ErrorCode::FrameSize),
            (&padded, ErrorCode::Protocol),
            (&nameless, ErrorCode::Protocol),
            (&b"HTTP/1.1 400 Bad Request\r\n".to_vec(), ErrorCode::FrameSize),
        ] {
            let error = Reader::default().next(&mut &bytes[..]).expect_err("refused");
            assert_eq!(error.code, code);
        }
        let head = Head { length: 3, kind: kind::HEADERS, flags: flag::PADDED | flag::PRIORITY, stream: 1 };
        assert_eq!(unpadded(head, &[1, 0, 0, 0, 0, 0, 0x88, 0]), Some(&[0x88][..]));
        assert_eq!((unpadded(head, &[1, 0, 0]), unpadded(head, &[9, 0, 0, 0, 0, 0, 1])), (None, None));
    }
}
