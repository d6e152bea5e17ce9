//! The frames that carry no answers: settings, windows, ends.
use super::frame::{self, HEAD_BYTES, Head, flag, kind, setting};
use super::session::{LAST_ID, MOST_WINDOW, Session};
use super::{ConnectionError, ErrorCode};
use crate::transport::{Breach, Outcome};

impl Session {
    pub(super) fn reset_by_peer(
        &mut self,
        head: Head,
        payload: &[u8],
        now_ns: u64,
    ) -> Result<(), ConnectionError> {
        self.known(head)?;
        let code = u32::from_be_bytes(exactly(payload)?);
        let Some(stream) = self.streams.find(head.stream) else { return Ok(()) };
        if stream.first_byte_ns.is_some() {
            stream.arrived(HEAD_BYTES + payload.len(), now_ns);
        }
        stream.sent = true;
        stream.unprocessed = code == ErrorCode::Refused as u32;
        if code == ErrorCode::Http11Required as u32 {
            self.refuse(head.stream, Breach::Version, None);
        } else {
            self.end(head.stream, Outcome::Reset, None);
        }
        Ok(())
    }

    pub(super) fn settings(&mut self, head: Head, payload: &[u8]) -> Result<(), ConnectionError> {
        if head.stream != 0 {
            return Err(ConnectionError::protocol("SETTINGS of a stream"));
        }
        let ack = head.has(flag::ACK);
        if (ack && !payload.is_empty()) || !payload.len().is_multiple_of(6) {
            return Err(ConnectionError::new(ErrorCode::FrameSize, "SETTINGS of a wrong length"));
        }
        if ack {
            return match self.max_streams {
                None => Err(ConnectionError::protocol("SETTINGS must come first")),
                Some(_) => Ok(()),
            };
        }
        self.max_streams.get_or_insert(u32::MAX);
        for pair in payload.chunks_exact(6) {
            let id = u16::from_be_bytes([pair[0], pair[1]]);
            self.setting(id, u32::from_be_bytes([pair[2], pair[3], pair[4], pair[5]]))?;
        }
        frame::write(kind::SETTINGS, flag::ACK, 0, &[], &mut self.out);
        Ok(())
    }

    fn setting(&mut self, id: u16, value: u32) -> Result<(), ConnectionError> {
        match id {
            setting::MAX_CONCURRENT_STREAMS => self.max_streams = Some(value),
            setting::INITIAL_WINDOW_SIZE => {
                let by = i64::from(value) - self.peer_window;
                self.peer_window = i64::from(value);
                if i64::from(value) > MOST_WINDOW || !self.streams.widen(by) {
                    return Err(ConnectionError::new(ErrorCode::FlowControl, "a window above 2³¹ − 1"));
                }
                self.unblock();
            }
            setting::HEADER_TABLE_SIZE if value < 4096 => self.table_shrunk = true,
            setting::ENABLE_PUSH if value != 0 => {
                return Err(ConnectionError::protocol("only a client may allow pushes"));
            }
            // Frames here are never longer than the default.
            setting::MAX_FRAME_SIZE if !(16_384..=0xff_ffff).contains(&value) => {
                return Err(ConnectionError::protocol("MAX_FRAME_SIZE out of its range"));
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn ping(&mut self, head: Head, payload: &[u8]) -> Result<(), ConnectionError> {
        let data: [u8; 8] = exactly(payload)?;
        if head.stream != 0 {
            return Err(ConnectionError::protocol("PING of a stream"));
        }
        if !head.has(flag::ACK) {
            frame::write(kind::PING, flag::ACK, 0, &data, &mut self.out);
        }
        Ok(())
    }

    pub(super) fn goaway(&mut self, head: Head, payload: &[u8]) -> Result<(), ConnectionError> {
        let Some(last) = payload.first_chunk::<4>().filter(|_| payload.len() >= 8) else {
            return Err(ConnectionError::new(ErrorCode::FrameSize, "GOAWAY of a wrong length"));
        };
        if head.stream != 0 {
            return Err(ConnectionError::protocol("GOAWAY of a stream"));
        }
        self.draining = true;
        let last = u32::from_be_bytes(*last) & LAST_ID;
        // A server may first announce its end with the highest number there is, and say later where it was.
        self.last_taken = Some(self.last_taken.map_or(last, |earlier| earlier.min(last)));
        for id in self.streams.ids() {
            if id <= last {
                continue;
            }
            if let Some(stream) = self.streams.find(id) {
                (stream.unprocessed, stream.sent) = (true, true);
            }
            self.end(id, Outcome::Closed, None);
        }
        Ok(())
    }

    pub(super) fn window_update(&mut self, head: Head, payload: &[u8]) -> Result<(), ConnectionError> {
        let by = i64::from(u32::from_be_bytes(exactly(payload)?) & LAST_ID);
        if head.stream == 0 {
            self.window += by;
            if by == 0 || self.window > MOST_WINDOW {
                return Err(ConnectionError::new(ErrorCode::FlowControl, "a window above 2³¹ − 1, or none"));
            }
            self.unblock();
            return Ok(());
        }
        let id = self.known(head)?;
        let Some(stream) = self.streams.find(id) else { return Ok(()) };
        stream.window += by;
        if by == 0 || stream.window > MOST_WINDOW {
            let code = if by == 0 { ErrorCode::Protocol } else { ErrorCode::FlowControl };
            self.refuse(id, Breach::Window, Some(code));
        } else if std::mem::take(&mut stream.blocked) {
            self.woken.push(stream.opened.task);
        }
        Ok(())
    }
}

/// A payload that has one length only.
fn exactly<const N: usize>(payload: &[u8]) -> Result<[u8; N], ConnectionError> {
    payload.try_into().map_err(|_| ConnectionError::new(ErrorCode::FrameSize, "a frame of a wrong length"))
}
