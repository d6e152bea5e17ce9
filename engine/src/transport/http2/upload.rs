//! What is sent: heads, bodies within the windows of the other side, cancellations.
use super::frame::{self, HEAD_BYTES, Head, MAX_PAYLOAD, flag, kind};
use super::session::Session;
use super::streams::{Key, Opened};
use super::{ErrorCode, hpack};

/// Bodies wait while so much is still to be sent.
const MOST_QUEUED: usize = 256 * 1024;
/// Of its buffer, what an idle connection keeps.
const KEPT_BYTES: usize = 4 * 1024;

impl Session {
    /// Begins a request; `parts` together are its header block. `last` says that it has no body.
    pub fn open(&mut self, opened: Opened, parts: [&[u8]; 2], last: bool) -> Key {
        let id = self.next_id;
        self.next_id += 2;
        self.idle_frames = 0;
        let before = self.out.len();
        let end = if last { flag::END_STREAM } else { 0 };
        let length = parts[0].len() + parts[1].len();
        if length <= MAX_PAYLOAD && !self.table_shrunk {
            Head { length, kind: kind::HEADERS, flags: end | flag::END_HEADERS, stream: id }
                .write(&mut self.out);
            for part in parts {
                self.out.extend_from_slice(part);
            }
        } else {
            self.write_long(id, parts, end);
        }
        let bytes = self.out.len() - before;
        let key = self.streams.open(id, opened, self.peer_window, super::session::MOST_WINDOW);
        if let Some(stream) = self.streams.get(key) {
            stream.sent = last;
            stream.bytes_out = bytes as u64;
        }
        key
    }

    /// A block in several frames, or one that is preceded by a change of the table.
    fn write_long(&mut self, id: u32, parts: [&[u8]; 2], end: u8) {
        let mut block = Vec::new();
        if std::mem::take(&mut self.table_shrunk) {
            hpack::encode_no_table(&mut block);
        }
        for part in parts {
            block.extend_from_slice(part);
        }
        let count = block.len().div_ceil(MAX_PAYLOAD);
        for (n, chunk) in block.chunks(MAX_PAYLOAD).enumerate() {
            let (kind, flags) = if n == 0 { (kind::HEADERS, end) } else { (kind::CONTINUATION, 0) };
            let flags = if n + 1 == count { flags | flag::END_HEADERS } else { flags };
            frame::write(kind, flags, id, chunk, &mut self.out);
        }
    }

    /// Sends as much of a piece of the body as there is room for, and says how much. Where that is not all, the task of the
    /// request is woken when there is room again.
    pub fn push(&mut self, key: Key, piece: &[u8], last: bool) -> usize {
        let mut sent = 0;
        loop {
            let queued = self.out.len() - self.out_sent;
            let room = MOST_QUEUED.saturating_sub(queued).min(MAX_PAYLOAD);
            let room = room.min(usize::try_from(self.window).unwrap_or(0));
            let Some(stream) = self.streams.get(key).filter(|s| s.outcome.is_none()) else {
                return piece.len();
            };
            let room = room.min(usize::try_from(stream.window).unwrap_or(0));
            let chunk = &piece[sent..piece.len().min(sent + room)];
            if chunk.is_empty() && sent < piece.len() {
                stream.blocked = true;
                self.has_blocked = true;
                return sent;
            }
            sent += chunk.len();
            let end = last && sent == piece.len();
            stream.sent = end;
            stream.window -= chunk.len() as i64;
            stream.bytes_out += (HEAD_BYTES + chunk.len()) as u64;
            self.window -= chunk.len() as i64;
            let flags = if end { flag::END_STREAM } else { 0 };
            frame::write(kind::DATA, flags, stream.id, chunk, &mut self.out);
            self.idle_frames = 0;
            if sent == piece.len() {
                return sent;
            }
        }
    }

    /// Takes a request off the connection; one that has not ended is cancelled.
    pub fn close(&mut self, key: Key) {
        let Some(stream) = self.streams.get(key) else { return };
        let (id, live, sent) = (stream.id, stream.outcome.is_none(), stream.sent);
        self.streams.close(key);
        // A server that has answered need not be sent the rest of the body.
        if live || !sent {
            self.reset(id, ErrorCode::Cancel);
        }
    }

    /// Tells the other side that a stream is over.
    pub(super) fn reset(&mut self, id: u32, code: ErrorCode) {
        if self.failed.is_none() {
            frame::write(kind::RST_STREAM, 0, id, &(code as u32).to_be_bytes(), &mut self.out);
        }
    }

    /// Bytes that are to be sent now.
    pub fn outgoing(&self) -> &[u8] {
        &self.out[self.out_sent..]
    }

    /// So many of them have been.
    pub fn sent(&mut self, count: usize) {
        self.out_sent += count;
        if self.out_sent == self.out.len() {
            self.out.clear();
            self.out_sent = 0;
            // An idle connection keeps little.
            if self.streams.live() == 0 && self.out.capacity() > KEPT_BYTES {
                self.out.shrink_to(KEPT_BYTES);
            }
        }
        if self.has_blocked && self.window > 0 && self.outgoing().len() < MOST_QUEUED / 2 {
            self.unblock();
        }
    }

    /// There may be room for bodies again.
    pub(super) fn unblock(&mut self) {
        if std::mem::take(&mut self.has_blocked) {
            let tasks = self.streams.unblock();
            self.woken.extend(tasks);
        }
    }
}
