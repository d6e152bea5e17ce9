//! The hot path: rows into a buffer, the buffer into the file as one checksummed batch.

use super::batch::{HEADER_BYTES, Header, Kind};
use super::names::{NamesPayload, RunInfo, RunTag};
use super::row::{ROW_BYTES, Row};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

pub use super::names::NameKind;

/// A batch is written when its rows fill this: 4096 rows.
pub const BATCH_BYTES: usize = 256 << 10;
/// A batch is written at the latest after this, so that a kill loses little.
pub const FLUSH_AFTER_NS: u64 = 500_000_000;

/// What a finished log holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSummary {
    /// The file.
    pub path: PathBuf,
    /// Rows in it.
    pub rows: u64,
    /// Rows that could not be written (disk full …); each such batch was reported as an error once.
    pub rows_lost: u64,
    /// Length of the file.
    pub bytes: u64,
    /// CRC-32 (IEEE) of the whole file.
    pub crc32: u32,
}

/// Writes one thread's log, `<dir>/thread-N.log`.
///
/// A batch that cannot be written is dropped and reported; the file is cut back to its last whole batch, so that what
/// was written stays readable and later batches, if there is room again, follow it directly.
pub struct LogWriter {
    file: File,
    path: PathBuf,
    /// Room for a header, then rows: one `write` a batch.
    buffer: Box<[u8]>,
    filled: usize,
    sequence: u32,
    rows: u64,
    rows_lost: u64,
    bytes: u64,
    file_crc: crc32fast::Hasher,
    flushed_ns: u64,
}

impl LogWriter {
    /// Creates the directory and the log; an existing log is an error, never overwritten.
    pub fn create(dir: &Path, thread: u8) -> io::Result<Self> {
        std::fs::create_dir_all(dir)?;
        let path = dir.join(format!("thread-{thread}.log"));
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        Ok(Self {
            file,
            path,
            buffer: vec![0; HEADER_BYTES + BATCH_BYTES].into_boxed_slice(),
            filled: HEADER_BYTES,
            sequence: 0,
            rows: 0,
            rows_lost: 0,
            bytes: 0,
            file_crc: crc32fast::Hasher::new(),
            flushed_ns: 0,
        })
    }

    /// Keeps one row. Every 4096th call writes.
    #[inline]
    pub fn push(&mut self, row: &Row) -> io::Result<()> {
        let end = self.filled + ROW_BYTES;
        self.buffer[self.filled..end].copy_from_slice(&row.encode());
        self.filled = end;
        if end == self.buffer.len() { self.flush() } else { Ok(()) }
    }

    /// Says what ids stand for; must come before the first row that uses them. May be called again with more names.
    pub fn names(&mut self, kind: NameKind, names: &BTreeMap<u16, String>) -> io::Result<()> {
        self.write_names(&NamesPayload::Table { kind, names: names.clone() })
    }

    /// Writes the facts of the run; log 0 starts with them.
    pub fn run(&mut self, run: &RunInfo) -> io::Result<()> {
        self.write_names(&NamesPayload::Run { kind: RunTag::Run, run: run.clone() })
    }

    /// Writes what is buffered if the last write was 500 ms ago or more. `now_ns` is any monotonic clock.
    pub fn flush_due(&mut self, now_ns: u64) -> io::Result<()> {
        if now_ns.saturating_sub(self.flushed_ns) < FLUSH_AFTER_NS {
            return Ok(());
        }
        self.flushed_ns = now_ns;
        self.flush()
    }

    /// Writes what is buffered.
    pub fn flush(&mut self) -> io::Result<()> {
        let rows = (self.filled - HEADER_BYTES) / ROW_BYTES;
        if rows == 0 {
            return Ok(());
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let written = self.write_batch(Kind::Rows, rows as u32, &mut buffer[..self.filled]);
        self.buffer = buffer;
        self.filled = HEADER_BYTES;
        if written.is_ok() {
            self.rows += rows as u64;
        } else {
            self.rows_lost += rows as u64;
        }
        written
    }

    /// Writes the rest and the `end` batch.
    pub fn finish(mut self) -> io::Result<LogSummary> {
        self.flush()?;
        let mut end = [0; HEADER_BYTES + 8];
        end[HEADER_BYTES..].copy_from_slice(&self.rows.to_le_bytes());
        self.write_batch(Kind::End, 0, &mut end)?;
        Ok(LogSummary {
            path: std::mem::take(&mut self.path),
            rows: self.rows,
            rows_lost: self.rows_lost,
            bytes: self.bytes,
            crc32: std::mem::take(&mut self.file_crc).finalize(),
        })
    }

    /// Rows written or buffered so far.
    pub fn rows(&self) -> u64 {
        self.rows + ((self.filled - HEADER_BYTES) / ROW_BYTES) as u64
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn write_names(&mut self, payload: &NamesPayload) -> io::Result<()> {
        self.flush()?;
        let mut batch = vec![0; HEADER_BYTES];
        serde_json::to_writer(&mut batch, payload)?;
        self.write_batch(Kind::Names, payload.count(), &mut batch)
    }

    /// `batch` starts with room for the header.
    fn write_batch(&mut self, kind: Kind, count: u32, batch: &mut [u8]) -> io::Result<()> {
        let payload = &batch[HEADER_BYTES..];
        let header = Header {
            kind,
            sequence: self.sequence,
            count,
            payload_bytes: payload.len() as u32,
            crc32: crc32fast::hash(payload),
        };
        batch[..HEADER_BYTES].copy_from_slice(&header.encode());
        if let Err(error) = self.file.write_all(batch) {
            self.file.set_len(self.bytes)?;
            self.file.seek(SeekFrom::Start(self.bytes))?;
            return Err(error);
        }
        self.sequence += 1;
        self.bytes += batch.len() as u64;
        self.file_crc.update(batch);
        Ok(())
    }
}

/// A thread that panics keeps what it has recorded; its log has no `end`, so that it counts as torn.
impl Drop for LogWriter {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}
