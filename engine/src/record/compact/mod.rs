//! All logs of a run → one Parquet file, sorted by `scheduled_us`.
//!
//! The file is written beside its place, made durable, and renamed; then the logs are deleted. Cut off at any point, the
//! same call completes it: before the rename the logs are whole, after it the file names the logs it was made of.

mod chunk;
mod columns;
mod output;
mod rle;
mod schema;
mod select;
mod source;

use columns::Columns;
use output::Output;
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;
use select::Selector;
use source::{LogFile, Source};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::reader::ReadError;

/// Rows of a row group, which is also what compaction holds in memory: 20 MiB of them.
const GROUP_ROWS: usize = 1 << 18;

/// What was compacted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CompactSummary {
    /// The Parquet file.
    pub path: PathBuf,
    /// Rows in it.
    pub rows: u64,
    /// Its length.
    pub bytes: u64,
    /// CRC-32 (IEEE) of the whole file.
    pub crc32: u32,
    /// Bytes of the logs that it replaces.
    pub log_bytes: u64,
    /// Logs that did not end with an `end` batch: their writer was killed or could not write.
    pub torn_logs: u32,
    /// True when the file was there already, from an earlier compaction that was cut off before it deleted the logs.
    pub already_done: bool,
}

/// Why there is no Parquet file. The logs are untouched then.
#[derive(Debug, thiserror::Error)]
pub enum CompactError {
    /// A file could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A log is not one that this engine reads.
    #[error("{}: {source}", path.display())]
    Log {
        /// Which.
        path: PathBuf,
        /// The cause.
        source: ReadError,
    },
    /// The Parquet file could not be written or read.
    #[error("{}: {source}", path.display())]
    Parquet {
        /// Which.
        path: PathBuf,
        /// The cause.
        source: ParquetError,
    },
    /// There is a Parquet file, and there are logs that it was not made of.
    #[error("{} is there already, but was not made from {log}; neither was touched", path.display())]
    Conflict {
        /// The Parquet file.
        path: PathBuf,
        /// The log.
        log: String,
    },
    /// There is nothing to compact.
    #[error("no thread-N.log in {}", dir.display())]
    NoLogs {
        /// Where they should be.
        dir: PathBuf,
    },
    /// Another process is at it.
    #[error("another compaction is writing {}", path.display())]
    Busy {
        /// What it writes.
        path: PathBuf,
    },
}

impl CompactError {
    fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }
}

/// Merges `<dir>/thread-*.log` into `out` and deletes the logs. Repeating it is harmless.
pub fn compact(dir: &Path, out: &Path) -> Result<CompactSummary, CompactError> {
    compact_in_groups(dir, out, GROUP_ROWS)
}

fn compact_in_groups(dir: &Path, out: &Path, group_rows: usize) -> Result<CompactSummary, CompactError> {
    if out.exists() {
        return complete(dir, out);
    }
    let source = Source::read(dir)?;
    if source.logs.is_empty() {
        return Err(CompactError::NoLogs { dir: dir.to_owned() });
    }
    let mut output = Output::create(out)?;
    if let Err(error) = write(&source, &mut output, group_rows) {
        output.discard();
        return Err(match error {
            WriteError::Io(source) => CompactError::io("read the logs for", out, source),
            WriteError::Parquet(source) => CompactError::Parquet { path: out.to_owned(), source },
        });
    }
    let (bytes, crc32) = output.publish(out)?;
    delete_logs(dir)?;
    Ok(CompactSummary {
        path: out.to_owned(),
        rows: source.rows(),
        bytes,
        crc32,
        log_bytes: source.logs.iter().map(|log| log.bytes).sum(),
        torn_logs: source.logs.iter().filter(|log| !log.whole).count() as u32,
        already_done: false,
    })
}

enum WriteError {
    Io(io::Error),
    Parquet(ParquetError),
}

impl From<ParquetError> for WriteError {
    fn from(error: ParquetError) -> Self {
        Self::Parquet(error)
    }
}

fn write(source: &Source, output: &mut Output, group_rows: usize) -> Result<(), WriteError> {
    let properties = Arc::new(schema::properties(&source.run, &source.logs)?);
    let mut file = SerializedFileWriter::new(output, schema::schema()?, properties)?;
    let mut selector = Selector::new(source, group_rows);
    let mut columns = Columns::default();
    loop {
        let rows = selector.next_group().map_err(WriteError::Io)?;
        if rows.is_empty() {
            break;
        }
        columns.write(&mut file, rows, &source.names)?;
    }
    file.close()?;
    Ok(())
}

/// The file is there: what is left to do is to delete the logs, if it was made of them.
fn complete(dir: &Path, out: &Path) -> Result<CompactSummary, CompactError> {
    let made_of = output::made_of(out)?;
    if let Some(stranger) = Source::read(dir)?.logs.into_iter().find(|log| !made_of.logs.contains(log)) {
        return Err(CompactError::Conflict { path: out.to_owned(), log: stranger.file });
    }
    delete_logs(dir)?;
    Ok(CompactSummary {
        path: out.to_owned(),
        rows: made_of.rows,
        bytes: made_of.bytes,
        crc32: made_of.crc32,
        log_bytes: made_of.logs.iter().map(|log| log.bytes).sum(),
        torn_logs: made_of.logs.iter().filter(|log| !log.whole).count() as u32,
        already_done: true,
    })
}

/// Deletes the logs, and their folder if nothing else is in it.
fn delete_logs(dir: &Path) -> Result<(), CompactError> {
    for (_, path) in source::log_paths(dir)? {
        std::fs::remove_file(&path).map_err(|error| CompactError::io("delete", &path, error))?;
    }
    // Not empty, or gone already: both are fine.
    let _ = std::fs::remove_dir(dir);
    Ok(())
}
