//! The Parquet file until it is in its place, and what it says about itself afterwards.

use super::schema::LOGS_KEY;
use super::{CompactError, LogFile};
use parquet::file::reader::{FileReader, SerializedFileReader};
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// A file that is being written, under another name.
pub(super) struct Output {
    writer: BufWriter<File>,
    path: PathBuf,
    crc: crc32fast::Hasher,
    bytes: u64,
}

impl Output {
    /// Creates `<out>.tmp`, or takes over one that a killed compaction has left.
    pub(super) fn create(out: &Path) -> Result<Self, CompactError> {
        let mut path = out.as_os_str().to_owned();
        path.push(".tmp");
        let path = PathBuf::from(path);
        let io = |error| CompactError::io("create", &path, error);
        if let Some(parent) = out.parent() {
            std::fs::create_dir_all(parent).map_err(io)?;
        }
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(io)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(rustix::io::Errno::WOULDBLOCK) {
            return Err(CompactError::Busy { path: out.to_owned() });
        }
        file.set_len(0).map_err(io)?;
        let writer = BufWriter::with_capacity(1 << 18, file);
        Ok(Self { writer, path, crc: crc32fast::Hasher::new(), bytes: 0 })
    }

    /// Makes it durable and puts it in its place; its length and checksum.
    pub(super) fn publish(mut self, out: &Path) -> Result<(u64, u32), CompactError> {
        let published = self.writer.flush().and_then(|()| self.writer.get_ref().sync_all()).and_then(|()| {
            std::fs::rename(&self.path, out)?;
            // The name is durable before the logs go.
            File::open(out.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")))?
                .sync_all()
        });
        if let Err(error) = published {
            let path = self.path.clone();
            self.discard();
            return Err(CompactError::io("write", &path, error));
        }
        Ok((self.bytes, self.crc.finalize()))
    }

    /// Leaves no trace.
    pub(super) fn discard(self) {
        let _ = std::fs::remove_file(&self.path);
        // What is still buffered must not be written on drop; there may be no room for it.
        let _ = self.writer.into_parts();
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write_all(bytes)?;
        self.crc.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// What a finished file is.
pub(super) struct MadeOf {
    pub(super) logs: Vec<LogFile>,
    pub(super) rows: u64,
    pub(super) bytes: u64,
    pub(super) crc32: u32,
}

/// Reads it from the file.
pub(super) fn made_of(path: &Path) -> Result<MadeOf, CompactError> {
    let io = |error| CompactError::io("read", path, error);
    let parquet = |source| CompactError::Parquet { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(io)?;
    let (bytes, crc32) = checksum(&mut file).map_err(io)?;
    let reader = SerializedFileReader::new(file).map_err(parquet)?;
    let metadata = reader.metadata().file_metadata();
    let logs = metadata
        .key_value_metadata()
        .and_then(|all| all.iter().find(|kv| kv.key == LOGS_KEY)?.value.as_deref())
        .and_then(|json| serde_json::from_str(json).ok())
        .unwrap_or_default();
    Ok(MadeOf { logs, rows: metadata.num_rows().cast_unsigned(), bytes, crc32 })
}

fn checksum(file: &mut File) -> io::Result<(u64, u32)> {
    let (mut crc, mut bytes, mut buffer) = (crc32fast::Hasher::new(), 0, vec![0; 1 << 16]);
    loop {
        let n = file.read(&mut buffer)?;
        if n == 0 {
            return Ok((bytes, crc.finalize()));
        }
        crc.update(&buffer[..n]);
        bytes += n as u64;
    }
}
