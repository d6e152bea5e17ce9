//! The logs of a run: what is in them, and where.

use super::CompactError;
use crate::record::names::{NameKind, NamesPayload, RunInfo};
use crate::record::reader::{Batch, End, LogReader, ReadError};
use crate::record::row::ROW_BYTES;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// A log as it was found, so that it can be known again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogFile {
    /// Name in its folder.
    pub file: String,
    /// Its length, a damaged tail included.
    pub bytes: u64,
    /// Good rows.
    pub rows: u64,
    /// See [`LogReader::digest`].
    pub digest: u32,
    /// False without its `end` batch.
    pub whole: bool,
}

/// Rows that lie together in a log.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Which log.
    pub log: u8,
    /// Position of the first row among the rows of its log.
    pub first_row: u64,
    /// Where in the file.
    pub offset: u64,
    /// How many.
    pub rows: u32,
    /// The earliest.
    pub min_us: i64,
    /// The latest.
    pub max_us: i64,
}

/// Names by kind and id, of one log: ids of different logs need not agree.
pub type Names = BTreeMap<(NameKind, u16), String>;

/// All logs of a run, read once and found good as far as the extents say.
#[derive(Debug, Default)]
pub struct Source {
    /// In the order of their threads.
    pub logs: Vec<LogFile>,
    /// Open, in the same order.
    pub files: Vec<File>,
    /// In the same order.
    pub names: Vec<Names>,
    /// Facts of the run.
    pub run: RunInfo,
    /// Sorted by [`Extent::min_us`].
    pub extents: Vec<Extent>,
}

impl Source {
    /// Reads all logs of a folder; none there is no error.
    pub fn read(dir: &Path) -> Result<Self, CompactError> {
        let mut source = Self::default();
        for (thread, path) in log_paths(dir)? {
            source.read_log(thread, &path)?;
        }
        source.extents.sort_by_key(|extent| extent.min_us);
        Ok(source)
    }

    /// Good rows.
    pub fn rows(&self) -> u64 {
        self.logs.iter().map(|log| log.rows).sum()
    }

    fn read_log(&mut self, thread: u8, path: &Path) -> Result<(), CompactError> {
        let io = |source| CompactError::io("read", path, source);
        let mut reader = LogReader::open(path).map_err(io)?;
        let log = self.logs.len() as u8;
        let mut names = Names::new();
        loop {
            let first_row = reader.rows();
            let batch = match reader.next_batch() {
                Ok(Some(batch)) => batch,
                Ok(None) => break,
                Err(ReadError::Io(error)) => return Err(io(error)),
                Err(source) => return Err(CompactError::Log { path: path.to_owned(), source }),
            };
            match batch {
                Batch::Rows { offset, bytes } => {
                    self.extents.extend(extent(log, first_row, offset, bytes));
                }
                Batch::Names(NamesPayload::Table { kind, names: more }) => {
                    names.extend(more.into_iter().map(|(id, name)| ((kind, id), name)));
                }
                Batch::Names(NamesPayload::Run { run, .. }) => self.run = run,
            }
        }
        let file = File::open(path).map_err(io)?;
        self.logs.push(LogFile {
            file: log_name(thread),
            bytes: file.metadata().map_err(io)?.len(),
            rows: reader.rows(),
            digest: reader.digest(),
            whole: reader.end() == Some(End::Whole),
        });
        self.files.push(file);
        self.names.push(names);
        Ok(())
    }
}

fn extent(log: u8, first_row: u64, offset: u64, bytes: &[u8]) -> Option<Extent> {
    let (rows, _) = bytes.as_chunks::<ROW_BYTES>();
    let times = rows.iter().map(scheduled_us);
    let (min_us, max_us) = times.fold((i64::MAX, i64::MIN), |(min, max), t| (min.min(t), max.max(t)));
    (!rows.is_empty()).then_some(Extent { log, first_row, offset, rows: rows.len() as u32, min_us, max_us })
}

/// The time of an encoded row.
pub fn scheduled_us(row: &[u8; ROW_BYTES]) -> i64 {
    i64::from_le_bytes([row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7]])
}

fn log_name(thread: u8) -> String {
    format!("thread-{thread}.log")
}

/// `thread-N.log` in a folder, by N; a folder that is not there has none.
pub fn log_paths(dir: &Path) -> Result<Vec<(u8, PathBuf)>, CompactError> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(CompactError::io("list", dir, error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.map_err(|error| CompactError::io("list", dir, error))?.file_name();
        let thread =
            name.to_str().and_then(|n| n.strip_prefix("thread-")?.strip_suffix(".log")?.parse::<u8>().ok());
        if let Some(thread) = thread.filter(|&thread| name.to_str() == Some(&log_name(thread))) {
            found.push((thread, dir.join(name)));
        }
    }
    found.sort();
    Ok(found)
}
