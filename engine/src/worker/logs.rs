//! The logs of a load that has ended: listed with their checksums, and sent.
use super::output::Output;
use crate::remote::frame::PIECE_BYTES;
use serde::Serialize;
use serde_json::json;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// One log, as it lies on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Log {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// CRC-32 (IEEE) of all of it.
    pub crc32: u32,
}

/// All logs in a folder, by name; one that is not there has none.
pub fn list(folder: &Path) -> io::Result<Vec<Log>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut logs = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let (mut bytes, mut sum) = (0, crc32fast::Hasher::new());
        each_piece(&mut File::open(entry.path())?, |piece| {
            bytes += piece.len() as u64;
            sum.update(piece);
        })?;
        logs.push(Log { name, bytes, crc32: sum.finalize() });
    }
    logs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(logs)
}

/// Sends a log from an offset on, and then says what it sent.
pub fn send(folder: &Path, log: &Log, offset: u64, output: &Output) -> io::Result<()> {
    let mut file = File::open(folder.join(&log.name))?;
    file.seek(SeekFrom::Start(offset))?;
    let mut sent = 0_u64;
    each_piece(&mut file, |piece| {
        sent += piece.len() as u64;
        output.piece(piece);
    })?;
    output.event("fetched", json!({"name": log.name, "offset": offset, "bytes": sent}));
    Ok(())
}

fn each_piece(file: &mut File, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(()),
            count => each(&buffer[..count]),
        }
    }
}
