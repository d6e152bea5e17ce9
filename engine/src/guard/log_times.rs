//! When the output of an instance came: a small file beside its log, so that the log can be searched by time.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

/// Output that came within this time has one line in the file: 20 lines of some 30 bytes a second, at most.
const GRAIN_NS: u64 = 50_000_000;

/// Appends lines of three numbers: `CLOCK_MONOTONIC` in ns, bytes of output so far, lines in the log so far. What lies
/// between two lines of the file came up to [`GRAIN_NS`] before the time of the second.
pub(super) struct LogTimes {
    file: File,
    bytes: u64,
    lines: u64,
    began_ns: u64,
    last_ns: u64,
    pending: bool,
}

/// The file beside a log.
pub(super) fn times_path(log: &Path) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(".times");
    name.into()
}

impl LogTimes {
    /// Goes on where an earlier start of the instance has ended: bytes as noted then, lines as they are in the log.
    pub(super) fn open(log: &Path) -> io::Result<Self> {
        let path = times_path(log);
        let bytes = noted_bytes(&path)?;
        let lines = count_lines(log)?;
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self { file, bytes, lines, began_ns: 0, last_ns: 0, pending: false })
    }

    /// Notes that output came.
    pub(super) fn took(&mut self, now_ns: u64, bytes: usize, kept: &[u8]) -> io::Result<()> {
        if self.pending && now_ns.saturating_sub(self.began_ns) >= GRAIN_NS {
            self.flush()?;
        }
        if !self.pending {
            self.began_ns = now_ns;
            self.pending = true;
        }
        self.last_ns = now_ns;
        self.bytes += bytes as u64;
        self.lines += newlines(kept);
        Ok(())
    }

    /// Writes what is not written yet.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.pending {
            self.pending = false;
            writeln!(self.file, "{} {} {}", self.last_ns, self.bytes, self.lines)?;
        }
        Ok(())
    }
}

fn newlines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// The bytes of the last whole line; 0 when there is none.
fn noted_bytes(path: &Path) -> io::Result<u64> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        file => file?,
    };
    let mut bytes = 0;
    for line in BufReader::new(file).lines() {
        bytes = line?.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(bytes);
    }
    Ok(bytes)
}

fn count_lines(log: &Path) -> io::Result<u64> {
    let mut file = match File::open(log) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        file => file?,
    };
    let (mut lines, mut buffer) = (0, [0; 16 << 10]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(lines),
            n => lines += newlines(&buffer[..n]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_noted_in_grains_and_goes_on_after_another_start() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("a.log");
        std::fs::write(&log, "one\ntwo\nth").unwrap();
        let mut times = LogTimes::open(&log).unwrap();
        times.took(1_000, 4, b"six\n").unwrap();
        times.took(GRAIN_NS, 6, b"two\nth").unwrap();
        times.took(GRAIN_NS + 2_000, 100, b"").unwrap();
        times.flush().unwrap();
        times.flush().unwrap();
        let noted = || std::fs::read_to_string(times_path(&log)).unwrap();
        assert_eq!(
            noted(),
            format!("{GRAIN_NS} 10 4\n{} 110 4\n", GRAIN_NS + 2_000),
            "two were there before"
        );
        let mut again = LogTimes::open(&log).unwrap();
        again.took(9, 3, b"x\ny").unwrap();
        again.flush().unwrap();
        assert!(noted().ends_with("\n9 113 3\n"), "{}", noted());
    }

    #[test]
    fn a_torn_last_line_is_no_obstacle() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("a.log");
        std::fs::write(times_path(&log), "5 70 2\n6 9").unwrap();
        assert_eq!(LogTimes::open(&log).unwrap().bytes, 9);
        std::fs::write(times_path(&log), "5 70 2\n6").unwrap();
        assert_eq!(LogTimes::open(&log).unwrap().bytes, 70);
    }
}
