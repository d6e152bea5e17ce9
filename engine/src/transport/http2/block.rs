//! Header blocks: put together from their frames, bounded, and read as the head or the trailers of an answer.
use super::answer::{self, Fault, Kind};
use super::frame::{self, HEAD_BYTES, Head, flag};
use super::session::Session;
use super::{ConnectionError, ErrorCode};
use crate::transport::{Breach, Outcome};

/// Frames of one header block.
const MOST_CONTINUATIONS: u32 = 1024;

/// A header block that comes in several frames.
pub(super) struct Block {
    head: Head,
    bytes: Vec<u8>,
    frames: u32,
    wire: usize,
}

impl Session {
    pub(super) fn headers(&mut self, head: Head, payload: &[u8], now_ns: u64) -> Result<(), ConnectionError> {
        self.known(head)?;
        let fragment =
            frame::unpadded(head, payload).ok_or(ConnectionError::protocol("more padding than payload"))?;
        if head.has(flag::END_HEADERS) {
            return self.decode(head, fragment, HEAD_BYTES + payload.len(), now_ns);
        }
        let wire = HEAD_BYTES + payload.len();
        self.block = Some(Block { head, bytes: fragment.to_vec(), frames: 0, wire });
        self.bound_block()
    }

    pub(super) fn continuation(
        &mut self,
        head: Head,
        payload: &[u8],
        now_ns: u64,
    ) -> Result<(), ConnectionError> {
        let Some(mut block) = self.block.take() else { return Ok(()) };
        if head.stream != block.head.stream {
            return Err(ConnectionError::protocol("CONTINUATION of another stream"));
        }
        block.bytes.extend_from_slice(payload);
        block.frames += 1;
        block.wire += HEAD_BYTES + payload.len();
        if head.has(flag::END_HEADERS) {
            return self.decode(block.head, &block.bytes, block.wire, now_ns);
        }
        self.block = Some(block);
        self.bound_block()
    }

    fn bound_block(&self) -> Result<(), ConnectionError> {
        let over = |block: &Block| {
            block.bytes.len() as u64 > self.terms.max_header_bytes || block.frames > MOST_CONTINUATIONS
        };
        if self.block.as_ref().is_some_and(over) {
            let what = "a header block without an end";
            let code = ErrorCode::EnhanceYourCalm;
            return Err(ConnectionError { code, outcome: Outcome::TooLarge, breach: None, what });
        }
        Ok(())
    }

    fn decode(&mut self, head: Head, block: &[u8], wire: usize, now_ns: u64) -> Result<(), ConnectionError> {
        let malformed = |_| ConnectionError::new(ErrorCode::Compression, "a malformed header block");
        let Some(stream) = self.streams.find(head.stream) else {
            // The stream is gone, but the table of the connection has to follow.
            return self.decoder.decode(block, |_, _| {}).map_err(malformed);
        };
        stream.arrived(wire, now_ns);
        let kind = answer::read(&mut self.decoder, block, stream, &self.terms).map_err(malformed)?;
        let end = head.has(flag::END_STREAM);
        let is_word = matches!(kind, Ok(Kind::Continue | Kind::Final));
        if is_word && stream.opened.expects && !std::mem::replace(&mut stream.continued, true) {
            self.woken.push(stream.opened.task);
        }
        let too_long = stream.length.is_some_and(|length| length > self.terms.max_body_bytes);
        let result = match kind {
            Ok(Kind::Final) if too_long && !stream.opened.head => Err(Fault::TooLarge),
            Ok(Kind::Interim | Kind::Continue) if end => Err(Fault::Protocol(Breach::Order)),
            Ok(Kind::Trailers) if !end => Err(Fault::Protocol(Breach::Order)),
            Ok(Kind::Interim | Kind::Continue) => return Ok(()),
            Ok(_) => Ok(()),
            Err(fault) => Err(fault),
        };
        self.idle_frames = 0;
        match result {
            Ok(()) if end => self.complete(head.stream),
            Ok(()) => {}
            Err(Fault::TooLarge) => self.end(head.stream, Outcome::TooLarge, Some(ErrorCode::Cancel)),
            Err(Fault::Protocol(breach)) => self.refuse(head.stream, breach, Some(ErrorCode::Protocol)),
        }
        Ok(())
    }
}
