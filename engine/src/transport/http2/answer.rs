//! Reads the head or the trailers of an answer (section 8.3).
use super::hpack::{Decoder, Malformed};
use super::session::Terms;
use super::streams::Stream;
use crate::transport::Breach;

/// What a field costs beside its bytes, as `MAX_HEADER_LIST_SIZE` counts.
const FIELD_OVERHEAD: u64 = 32;
/// Of an instance's name at most; longer ones are cut.
const MAX_INSTANCE_BYTES: usize = 128;

/// What a block was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An interim answer: the final one is still to come.
    Interim,
    /// Of these the one that says that the body is wanted.
    Continue,
    /// The head of the answer.
    Final,
    /// What comes after the body.
    Trailers,
}

/// What is wrong with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It breaks the rules.
    Protocol(Breach),
    /// It is longer than allowed.
    TooLarge,
}

/// Takes a block in. An error of the stream is the inner result.
pub(super) fn read(
    decoder: &mut Decoder,
    block: &[u8],
    stream: &mut Stream,
    terms: &Terms,
) -> Result<Result<Kind, Fault>, Malformed> {
    let mut sink = Sink { trailers: stream.status > 0, status: 0, plain: false, fault: None, stream, terms };
    decoder.decode(block, |name, value| sink.field(name, value))?;
    Ok(sink.end())
}

struct Sink<'a> {
    stream: &'a mut Stream,
    terms: &'a Terms,
    trailers: bool,
    status: u16,
    /// A field that is no pseudo-header has been seen.
    plain: bool,
    fault: Option<Fault>,
}

impl Sink<'_> {
    fn field(&mut self, name: &[u8], value: &[u8]) {
        self.stream.header_bytes += (name.len() + value.len()) as u64 + FIELD_OVERHEAD;
        if self.stream.header_bytes > self.terms.max_header_bytes {
            // The block is read on all the same: the table depends on it.
            self.fault.get_or_insert(Fault::TooLarge);
        }
        if self.fault.is_some() {
            return;
        }
        if name.first() == Some(&b':') {
            self.pseudo(name, value);
        } else {
            self.plain(name, value);
        }
    }

    fn pseudo(&mut self, name: &[u8], value: &[u8]) {
        let status = match value {
            [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] => {
                u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0')
            }
            _ => 0,
        };
        // One status, before everything else; a switch of protocols is not possible.
        if name != b":status" || self.plain || self.trailers || self.status > 0 || matches!(status, 0 | 101) {
            self.fault = Some(Fault::Protocol(Breach::Status));
        }
        self.status = status;
    }

    fn plain(&mut self, name: &[u8], value: &[u8]) {
        self.plain = true;
        let of_connections = match name.len() {
            7 => name == b"upgrade",
            10 => name == b"connection" || name == b"keep-alive",
            14 if name == b"content-length" && !self.trailers => {
                return self.length(value);
            }
            16 => name == b"proxy-connection",
            17 => name == b"transfer-encoding",
            _ => false,
        };
        let bad_name = name.is_empty() || name.iter().any(|b| matches!(b, 0..=b' ' | b'A'..=b'Z' | 0x7f..));
        let bad_value = value.iter().any(|b| matches!(b, 0 | b'\n' | b'\r'));
        if of_connections || bad_name || bad_value {
            self.fault = Some(Fault::Protocol(Breach::Header));
            return;
        }
        if self.terms.instance_header.as_deref().is_some_and(|wanted| name == wanted.as_bytes())
            && self.is_kept()
        {
            let cut = &value[..value.len().min(MAX_INSTANCE_BYTES)];
            self.stream.instance = self.terms.instances.borrow_mut().intern(cut);
        }
        self.keep(name, value);
    }

    fn length(&mut self, value: &[u8]) {
        let text = std::str::from_utf8(value).ok().filter(|t| t.bytes().all(|b| b.is_ascii_digit()));
        let length = text.and_then(|t| t.parse::<u64>().ok());
        if length.is_none() || self.stream.length.is_some_and(|other| Some(other) != length) {
            self.fault = Some(Fault::Protocol(Breach::Length));
            return;
        }
        if self.is_kept() {
            self.stream.length = length;
        }
        self.keep(b"content-length", value);
    }

    /// What an interim answer says is not part of the answer.
    fn is_kept(&self) -> bool {
        self.trailers || self.status >= 200
    }

    fn keep(&mut self, name: &[u8], value: &[u8]) {
        if self.stream.opened.want.wants(name) && self.is_kept() {
            self.stream.opened.reply.fields.push(name, value);
        }
    }

    fn end(self) -> Result<Kind, Fault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        match self.status {
            _ if self.trailers => Ok(Kind::Trailers),
            0 => Err(Fault::Protocol(Breach::Status)),
            100 => Ok(Kind::Continue),
            101..200 => Ok(Kind::Interim),
            status => {
                self.stream.status = status;
                Ok(Kind::Final)
            }
        }
    }
}
