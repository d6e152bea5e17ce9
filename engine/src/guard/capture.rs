//! The output of an instance: every byte counted, the first ones kept.

use super::log_times::LogTimes;
use crate::transport::reactor::monotonic_ns;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// Reads of one [`Capture::pump`]: a flood must not keep the guard from its other work.
const READS_PER_PUMP: usize = 32;
const READ_BYTES: usize = 16 << 10;

/// What there is to read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pumped {
    /// More, perhaps now, perhaps later.
    Open,
    /// Nothing, ever: all writers have closed.
    Ended,
}

/// The read end of an instance's stdout and stderr, and its log.
pub(super) struct Capture {
    pipe: OwnedFd,
    log: File,
    limit: u64,
    /// Bytes of output.
    pub(super) total: u64,
    /// Bytes of output in the log.
    pub(super) kept: u64,
    last_kept: u8,
    /// Set once, when the log could not be written; output is counted but not kept from then on.
    pub(super) log_error: Option<io::Error>,
    log_failed: bool,
    times: LogTimes,
}

/// Opens a log for appending: an instance that is started again goes on in its log.
pub(super) fn open_log(path: &Path) -> io::Result<File> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    OpenOptions::new().create(true).append(true).open(path)
}

impl Capture {
    /// `pipe` must not block.
    pub(super) fn new(pipe: OwnedFd, log: File, times: LogTimes, limit: u64) -> Self {
        let last_kept = b'\n';
        Self { pipe, log, limit, total: 0, kept: 0, last_kept, log_error: None, log_failed: false, times }
    }

    /// To poll.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Takes what there is, up to a bound.
    pub(super) fn pump(&mut self) -> Pumped {
        let mut buffer = [0u8; READ_BYTES];
        for _ in 0..READS_PER_PUMP {
            match rustix::io::read(&self.pipe, &mut buffer) {
                Ok(0) => return Pumped::Ended,
                Ok(n) => self.take(&buffer[..n]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Pumped::Open,
                Err(_) => return Pumped::Ended,
            }
        }
        Pumped::Open
    }

    fn take(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.limit.saturating_sub(self.kept);
        let keep = &bytes[..bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
        if self.log_failed {
            return;
        }
        if let Err(error) = self.times.took(monotonic_ns(), bytes.len(), keep) {
            self.log_error = Some(error);
        }
        let Some(&last) = keep.last() else { return };
        if let Err(error) = self.log.write_all(keep) {
            self.log_failed = true;
            self.log_error = Some(error);
            return;
        }
        self.kept += keep.len() as u64;
        self.last_kept = last;
    }

    /// Takes what is left in the pipe, without waiting for writers that live on, and says in the log what was cut.
    pub(super) fn finish(&mut self) {
        // A pipe holds 64 KiB: two pumps are more than everything that was written before the end.
        for _ in 0..2 {
            if self.pump() == Pumped::Ended {
                break;
            }
        }
        if let Err(error) = self.times.flush() {
            self.log_error = Some(error);
        }
        let cut = self.total - self.kept;
        if cut == 0 || self.log_failed {
            return;
        }
        let newline = if self.last_kept == b'\n' { "" } else { "\n" };
        let line =
            format!("{newline}[towtank: {cut} more bytes of output were cut at {} bytes]\n", self.limit);
        if let Err(error) = self.log.write_all(line.as_bytes()) {
            self.log_error = Some(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::{PipeFlags, pipe_with};

    fn capture(limit: u64) -> (OwnedFd, Capture, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
        let path = dir.path().join("sub/log");
        let log = open_log(&path).unwrap();
        let capture = Capture::new(read, log, LogTimes::open(&path).unwrap(), limit);
        (write, capture, dir)
    }

    #[test]
    fn all_is_counted_and_the_cut_is_named() {
        let (write, mut capture, dir) = capture(5);
        rustix::io::write(&write, b"one\ntwo\n").unwrap();
        assert_eq!(capture.pump(), Pumped::Open);
        capture.finish();
        assert_eq!((capture.total, capture.kept), (8, 5));
        let log = std::fs::read_to_string(dir.path().join("sub/log")).unwrap();
        assert_eq!(log, "one\nt\n[towtank: 3 more bytes of output were cut at 5 bytes]\n");
        let times = std::fs::read_to_string(dir.path().join("sub/log.times")).unwrap();
        assert!(times.ends_with(" 8 1\n"), "all is counted, with its time: {times}");
    }

    #[test]
    fn nothing_is_added_when_nothing_was_cut() {
        let (write, mut capture, dir) = capture(8);
        rustix::io::write(&write, b"one\ntwo\n").unwrap();
        drop(write);
        assert_eq!(capture.pump(), Pumped::Ended);
        capture.finish();
        assert_eq!(std::fs::read_to_string(dir.path().join("sub/log")).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn a_log_that_cannot_be_written_is_said_once_and_counting_goes_on() {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let times = LogTimes::open(&dir.path().join("log")).unwrap();
        let mut capture = Capture::new(read, open_log(Path::new("/dev/full")).unwrap(), times, 100);
        rustix::io::write(&write, b"one").unwrap();
        capture.pump();
        rustix::io::write(&write, b"two").unwrap();
        capture.finish();
        assert_eq!((capture.total, capture.kept), (6, 0));
        assert!(capture.log_error.is_some());
    }
}
