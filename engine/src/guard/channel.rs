//! Lines in, lines out, without ever blocking the guard.

use super::protocol::Event;
use rustix::event::PollFlags;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;

/// A command that is longer is refused: environments are bounded by the kernel at a fraction of it.
const MAX_LINE_BYTES: usize = 8 << 20;
/// A pipe that is writable takes this much without blocking (`PIPE_BUF`).
const WRITE_BYTES: usize = 4096;
/// Events that nobody reads are dropped beyond this.
const MAX_QUEUED_BYTES: usize = 8 << 20;

/// stdin, cut into lines.
#[derive(Default)]
pub(super) struct LinesIn {
    buffer: Vec<u8>,
    ended: bool,
}

impl LinesIn {
    /// Reads once; the descriptor must be readable. Returns whole lines; the last one counts without its newline.
    pub(super) fn read(&mut self, fd: BorrowedFd<'_>) -> Vec<Vec<u8>> {
        let mut chunk = [0u8; 16 << 10];
        match rustix::io::read(fd, &mut chunk) {
            Ok(0) => self.ended = true,
            Ok(n) => self.buffer.extend_from_slice(&chunk[..n]),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => self.ended = true,
        }
        if self.buffer.len() > MAX_LINE_BYTES && !self.buffer.contains(&b'\n') {
            // Nobody of ours writes this; not reading on is the same as EOF.
            self.ended = true;
        }
        let mut lines = Vec::new();
        while let Some(end) = self.buffer.iter().position(|&b| b == b'\n') {
            let rest = self.buffer.split_off(end + 1);
            let mut line = std::mem::replace(&mut self.buffer, rest);
            line.pop();
            lines.push(line);
        }
        if self.ended {
            lines.push(std::mem::take(&mut self.buffer));
        }
        lines.retain(|line| !line.iter().all(u8::is_ascii_whitespace));
        lines
    }

    /// No more commands will come.
    pub(super) fn ended(&self) -> bool {
        self.ended
    }
}

/// stdout, written only as far as it takes.
#[derive(Default)]
pub(super) struct EventsOut {
    queue: VecDeque<u8>,
    closed: bool,
}

impl EventsOut {
    /// Queues an event.
    pub(super) fn send(&mut self, event: &Event) {
        if self.closed || self.queue.len() > MAX_QUEUED_BYTES {
            return;
        }
        if let Ok(mut line) = serde_json::to_vec(event) {
            line.push(b'\n');
            self.queue.extend(line);
        }
    }

    /// Is there something to write?
    pub(super) fn is_pending(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Writes a piece; the descriptor must be writable.
    pub(super) fn write(&mut self, fd: BorrowedFd<'_>) {
        let (front, _) = self.queue.as_slices();
        match rustix::io::write(fd, &front[..front.len().min(WRITE_BYTES)]) {
            Ok(n) => drop(self.queue.drain(..n)),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => self.close(),
        }
    }

    /// Nobody listens any more; the guard goes on and ends what it has to end.
    pub(super) fn close(&mut self) {
        self.closed = true;
        self.queue.clear();
    }

    /// Writes what is left, for a bounded time: the reader may be gone without having closed.
    pub(super) fn drain(&mut self, timeout: std::time::Duration) {
        let until = std::time::Instant::now() + timeout;
        while self.is_pending() && std::time::Instant::now() < until {
            let stdout = io::stdout();
            let wait = rustix::event::Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
            let mut fds = [rustix::event::PollFd::new(&stdout, PollFlags::OUT)];
            match rustix::event::poll(&mut fds, Some(&wait)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) if fds[0].revents().contains(PollFlags::OUT) => self.write(stdout.as_fd()),
                Ok(_) | Err(_) => self.close(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_and_the_last_needs_no_newline() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        let mut lines = LinesIn::default();
        rustix::io::write(&write, b"one\n\ntw").unwrap();
        assert_eq!(lines.read(read.as_fd()), [b"one".to_vec()]);
        rustix::io::write(&write, b"o\nthree").unwrap();
        assert_eq!(lines.read(read.as_fd()), [b"two".to_vec()]);
        drop(write);
        assert_eq!(lines.read(read.as_fd()), [b"three".to_vec()]);
        assert!(lines.ended());
    }

    #[test]
    fn a_reader_that_is_gone_does_not_matter() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        drop(read);
        let mut events = EventsOut::default();
        events.send(&Event::Bye);
        events.write(write.as_fd());
        assert!(!events.is_pending());
    }
}
