//! All logs of a run → one sorted Parquet file.

use std::io;
use std::path::{Path, PathBuf};

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
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// Merges `<dir>/thread-*.log` into `out` and deletes the logs. Repeating it is harmless.
pub fn compact(_dir: &Path, out: &Path) -> Result<CompactSummary, CompactError> {
    Err(CompactError::Io {
        action: "compact",
        path: out.to_owned(),
        source: io::Error::from(io::ErrorKind::Unsupported),
    })
}
