//! Reads one answer from pieces of any size.
use super::body::{Chunk, Framing};
use crate::transport::{Breach, Reply, Want};
use std::mem::MaybeUninit;

/// Headers in one answer at most.
const MAX_HEADERS: usize = 128;
/// Of an instance's name at most; longer ones are cut.
const MAX_INSTANCE_BYTES: usize = 128;

/// Why reading an answer ended badly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// This is not HTTP, or breaks its rules.
    Protocol(Breach),
    /// A bound on headers or body was passed.
    TooLarge,
    /// The connection ended before the answer was complete.
    Closed,
}

/// How far reading has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The answer is not complete.
    More,
    /// It is; this many bytes of the last piece belonged to it.
    Done(usize),
}

/// What has to be known of the request and its expectations.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// It was a HEAD request.
    pub head: bool,
    /// The header that names the instance.
    pub instance_header: Option<&'a str>,
    /// What is kept of the answer.
    pub want: Want,
    /// Bound on all heads and trailers together.
    pub max_header_bytes: u64,
    /// Bound on the content.
    pub max_body_bytes: u64,
}

/// State of one answer; buffers are kept from one to the next.
#[derive(Default)]
pub struct Decoder {
    framing: Option<Framing>,
    /// A head that came in pieces.
    partial: Vec<u8>,
    /// Name of the instance, as answered.
    instance: Vec<u8>,
    header_bytes: u64,
    body_bytes: u64,
    status: u16,
    keep_alive: bool,
    continued: bool,
}

impl Decoder {
    /// Before every request.
    pub fn reset(&mut self) {
        self.framing = None;
        self.partial.clear();
        self.instance.clear();
        self.header_bytes = 0;
        self.body_bytes = 0;
        self.status = 0;
        self.keep_alive = false;
        self.continued = false;
    }

    /// Status of the answer; 0 before its head is complete.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The server wants to see the body (100).
    pub fn is_continued(&self) -> bool {
        self.continued
    }

    /// The connection may serve another request.
    pub fn keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// The instance as the answer names it; empty if it does not.
    pub fn instance(&self) -> &[u8] {
        &self.instance
    }

    /// The connection ended: that completes an answer without a length.
    pub fn end(&mut self) -> Result<(), Fault> {
        if self.framing == Some(Framing::UntilClose) { Ok(()) } else { Err(Fault::Closed) }
    }

    /// Takes the next piece in, and keeps in `reply` what is wanted of it.
    pub fn feed(&mut self, data: &[u8], facts: &Facts<'_>, reply: &mut Reply) -> Result<Progress, Fault> {
        let mut used = 0;
        while self.framing.is_none() {
            let Some(head) = self.head(&data[used..], facts, reply)? else { return Ok(Progress::More) };
            used += head;
            if self.framing == Some(Framing::Length(0)) {
                return Ok(Progress::Done(used));
            }
        }
        self.content(data, used, facts, reply)
    }

    fn content(
        &mut self,
        data: &[u8],
        mut used: usize,
        facts: &Facts<'_>,
        reply: &mut Reply,
    ) -> Result<Progress, Fault> {
        let Some(mut framing) = self.framing else { return Ok(Progress::More) };
        while used < data.len() {
            let piece = framing.advance(&data[used..])?;
            let end = used + piece.used;
            if facts.want.body {
                reply.body.extend_from_slice(&data[end - piece.content..end]);
            }
            used = end;
            self.body_bytes += piece.content as u64;
            self.header_bytes += (piece.used - piece.content) as u64;
            if self.body_bytes > facts.max_body_bytes || self.header_overrun(facts) {
                return Err(Fault::TooLarge);
            }
            if piece.done {
                return Ok(Progress::Done(used));
            }
        }
        self.framing = Some(framing);
        Ok(Progress::More)
    }

    /// The framing of chunks counts as headers, and may cost more of them the longer the body is.
    fn header_overrun(&self, facts: &Facts<'_>) -> bool {
        self.header_bytes > facts.max_header_bytes.saturating_add(self.body_bytes.saturating_mul(8))
    }

    /// Reads a head; gives the bytes of `data` that belonged to it, or none if it is not complete.
    fn head(&mut self, data: &[u8], facts: &Facts<'_>, reply: &mut Reply) -> Result<Option<usize>, Fault> {
        if data.is_empty() {
            return Ok(None);
        }
        if self.partial.is_empty() {
            return match self.parse(data, facts, reply)? {
                Some(used) => Ok(Some(used)),
                None => self.keep(data, facts),
            };
        }
        let mut partial = std::mem::take(&mut self.partial);
        let before = partial.len();
        partial.extend_from_slice(data);
        // Only a line end after a line end can complete a head: a server that drips costs no parse per byte.
        let from = before.saturating_sub(3);
        let complete = partial[from..].windows(2).any(|w| w == b"\n\n" || w == b"\n\r");
        let parsed = if complete { self.parse(&partial, facts, reply)? } else { None };
        let Some(used) = parsed else {
            self.partial = partial;
            return self.bound(facts);
        };
        partial.clear();
        self.partial = partial;
        Ok(Some(used - before))
    }

    fn keep(&mut self, data: &[u8], facts: &Facts<'_>) -> Result<Option<usize>, Fault> {
        self.partial.extend_from_slice(data);
        self.bound(facts)
    }

    fn bound(&self, facts: &Facts<'_>) -> Result<Option<usize>, Fault> {
        let bytes = self.header_bytes + self.partial.len() as u64;
        if bytes > facts.max_header_bytes { Err(Fault::TooLarge) } else { Ok(None) }
    }

    fn parse(&mut self, bytes: &[u8], facts: &Facts<'_>, reply: &mut Reply) -> Result<Option<usize>, Fault> {
        let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
        let mut response = httparse::Response::new(&mut []);
        let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
            &mut response,
            bytes,
            &mut headers,
        );
        let used = match parsed {
            Ok(httparse::Status::Complete(used)) => used,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(Fault::TooLarge),
            Err(error) => return Err(Fault::Protocol(breach(error))),
        };
        self.header_bytes += used as u64;
        if self.header_bytes > facts.max_header_bytes {
            return Err(Fault::TooLarge);
        }
        let status = response.code.unwrap_or(0);
        if (100..200).contains(&status) {
            // An interim answer is skipped; a switch of protocols was never asked for.
            self.continued |= status == 100;
            return if status == 101 { Err(Fault::Protocol(Breach::Upgrade)) } else { Ok(Some(used)) };
        }
        if !(200..=999).contains(&status) {
            return Err(Fault::Protocol(Breach::Status));
        }
        self.status = status;
        if facts.want.any_field() {
            reply.fields.clear();
            for header in response.headers.iter().filter(|h| facts.want.wants(h.name.as_bytes())) {
                reply.fields.push(header.name.as_bytes(), header.value);
            }
        }
        self.interpret(response.version == Some(1), response.headers, facts)?;
        Ok(Some(used))
    }

    /// Finds the framing (RFC 9112, section 6.3) and what else is of interest among the headers.
    fn interpret(
        &mut self,
        v11: bool,
        headers: &[httparse::Header<'_>],
        facts: &Facts<'_>,
    ) -> Result<(), Fault> {
        let (mut length, mut chunked, mut coded) = (None, false, false);
        let (mut close, mut keep) = (false, false);
        for header in headers {
            let (name, value) = (header.name, header.value);
            // Compared by length first: most headers are none of these.
            match name.len() {
                14 if name.eq_ignore_ascii_case("content-length") => {
                    let new = parse_length(value)?;
                    if length.is_some_and(|old| old != new) {
                        return Err(Fault::Protocol(Breach::Length));
                    }
                    length = Some(new);
                }
                17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                    // Chunked twice, or before another coding: two readers would not agree on where it ends.
                    for token in tokens(value) {
                        if chunked {
                            return Err(Fault::Protocol(Breach::Coding));
                        }
                        coded = true;
                        chunked = token.eq_ignore_ascii_case(b"chunked");
                    }
                }
                10 if name.eq_ignore_ascii_case("connection") => {
                    close |= tokens(value).any(|t| t.eq_ignore_ascii_case(b"close"));
                    keep |= tokens(value).any(|t| t.eq_ignore_ascii_case(b"keep-alive"));
                }
                _ => {}
            }
            if facts.instance_header.is_some_and(|wanted| name.eq_ignore_ascii_case(wanted)) {
                self.instance.clear();
                self.instance.extend_from_slice(&value[..value.len().min(MAX_INSTANCE_BYTES)]);
            }
        }
        self.keep_alive = if v11 { !close } else { keep && !close };
        let framing = if facts.head || matches!(self.status, 204 | 304) {
            Framing::Length(0)
        } else if chunked {
            // A length beside it is an attempt to smuggle, or a mistake, and HTTP/1.0 has no chunks: what follows cannot
            // be trusted.
            self.keep_alive &= length.is_none() && v11;
            Framing::Chunked(Chunk::START)
        } else if coded {
            Framing::UntilClose
        } else {
            length.map_or(Framing::UntilClose, Framing::Length)
        };
        if framing == Framing::UntilClose {
            self.keep_alive = false;
        }
        if matches!(framing, Framing::Length(n) if n > facts.max_body_bytes) {
            return Err(Fault::TooLarge);
        }
        self.framing = Some(framing);
        Ok(())
    }
}

/// Which part of a head is malformed.
fn breach(error: httparse::Error) -> Breach {
    match error {
        httparse::Error::HeaderName | httparse::Error::HeaderValue => Breach::Header,
        _ => Breach::Start,
    }
}

fn parse_length(value: &[u8]) -> Result<u64, Fault> {
    let bad = Fault::Protocol(Breach::Length);
    let text = std::str::from_utf8(value).map_err(|_| bad)?.trim();
    // `parse` alone would take a sign.
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad);
    }
    text.parse().map_err(|_| Fault::TooLarge)
}

fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|b| *b == b',').map(<[u8]>::trim_ascii)
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;
