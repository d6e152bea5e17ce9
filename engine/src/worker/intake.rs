//! Taking a job and its files in: bounded, checked, into a folder of this worker alone.
use super::orders::{Content, File, Part};
use crate::guard::is_plain_name;
use crate::job::MAX_JOB_BYTES;
use crate::remote::frame::{self, Frame, FrameError, MESSAGE_BYTES};
use serde_json::Value;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Name of the job in the worker's folder.
pub const JOB: &str = "job.json";
/// Name of the folder of its logs there.
pub const LOGS: &str = "requests";
/// Files of a job.
const MOST_FILES: usize = 4096;
/// Bytes of all of them.
const MOST_BYTES: u64 = 8 << 30;

/// Why a job was not taken in.
#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    /// What was asked for is not possible; the connection is as good as before only if nothing followed.
    #[error("{0}")]
    Bad(String),
    /// The connection.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// Takes all in; the job is then in `folder`, as this worker is to carry it out.
pub fn take(
    from: &mut impl Read,
    folder: &Path,
    job: Content,
    part: Part,
    files: &[File],
) -> Result<(), IntakeError> {
    check(job, files)?;
    let mut text = Vec::new();
    receive(from, &mut text, "the job", job)?;
    for file in files {
        let path = folder.join(&file.name);
        let fail = |error: std::io::Error| IntakeError::Bad(format!("cannot write {}: {error}", file.name));
        let mut to = private(&path).map_err(fail)?;
        receive(from, &mut to, &file.name, Content { bytes: file.bytes, crc32: file.crc32 })?;
    }
    let text = placed(&text, part)?;
    let mut to =
        private(&folder.join(JOB)).map_err(|e| IntakeError::Bad(format!("cannot write {JOB}: {e}")))?;
    to.write_all(&text).map_err(|e| IntakeError::Bad(format!("cannot write {JOB}: {e}")))
}

fn check(job: Content, files: &[File]) -> Result<(), IntakeError> {
    let bad = |message: String| Err(IntakeError::Bad(message));
    if job.bytes > MAX_JOB_BYTES {
        return bad(format!("a job of {} bytes; at most {MAX_JOB_BYTES} are taken", job.bytes));
    }
    if files.len() > MOST_FILES {
        return bad(format!("{} files; at most {MOST_FILES} are taken", files.len()));
    }
    if let Some(file) =
        files.iter().find(|file| !is_plain_name(&file.name) || [JOB, LOGS].contains(&&*file.name))
    {
        return bad(format!(
            "\"{}\" is no name for a file: letters, digits, '.', '_' and '-' only",
            file.name
        ));
    }
    let all = files.iter().fold(0_u64, |sum, file| sum.saturating_add(file.bytes));
    if all > MOST_BYTES {
        return bad(format!("files of {all} bytes; at most {MOST_BYTES} are taken"));
    }
    Ok(())
}

/// As its owner's alone: jobs may hold secrets.
fn private(path: &Path) -> std::io::Result<std::fs::File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn receive(
    from: &mut impl Read,
    to: &mut impl Write,
    what: &str,
    expected: Content,
) -> Result<(), IntakeError> {
    let bad = |message: String| Err(IntakeError::Bad(format!("{what}: {message}")));
    let (mut left, mut sum) = (expected.bytes, crc32fast::Hasher::new());
    while left > 0 {
        let Frame::Piece(piece) = frame::read(from, MESSAGE_BYTES)? else {
            return bad(format!("a message where {left} more bytes are expected"));
        };
        if piece.is_empty() || piece.len() as u64 > left {
            return bad(format!("a piece of {} bytes where {left} more are expected", piece.len()));
        }
        left -= piece.len() as u64;
        sum.update(&piece);
        if let Err(error) = to.write_all(&piece) {
            return bad(format!("cannot be kept: {error}"));
        }
    }
    let found = sum.finalize();
    if found != expected.crc32 {
        return bad(format!("its checksum is {found:08x}; {:08x} was announced", expected.crc32));
    }
    Ok(())
}

/// The job with what is the worker's to say: its part, and where its logs go.
fn placed(text: &[u8], part: Part) -> Result<Vec<u8>, IntakeError> {
    let mut job: Value =
        serde_json::from_slice(text).map_err(|e| IntakeError::Bad(format!("the job is not JSON: {e}")))?;
    let Value::Object(map) = &mut job else {
        return Err(IntakeError::Bad("the job is no JSON object".into()));
    };
    map.insert("part".into(), serde_json::json!({"worker": part.worker, "of": part.of}));
    map.insert("output".into(), LOGS.into());
    Ok(job.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(bytes: &[u8]) -> Content {
        Content { bytes: bytes.len() as u64, crc32: crc32fast::hash(bytes) }
    }

    fn file(name: &str, bytes: &[u8]) -> File {
        File { name: name.into(), bytes: bytes.len() as u64, crc32: crc32fast::hash(bytes) }
    }

    fn pieces(all: &[&[u8]]) -> Vec<u8> {
        let mut sent = Vec::new();
        for piece in all {
            frame::write_piece(&mut sent, piece).expect("a buffer");
        }
        sent
    }

    const PART: Part = Part { worker: 1, of: 3 };

    #[test]
    fn a_job_and_its_files_arrive_whole() {
        let dir = tempfile::tempdir().expect("a folder");
        let job = br#"{"run_id": "r", "output": "/etc"}"#;
        let sent = pieces(&[&job[..10], &job[10..], b"a,b\n", b"1,2\n"]);
        take(&mut &sent[..], dir.path(), content(job), PART, &[file("f.csv", b"a,b\n1,2\n")]).expect("taken");
        let kept: Value =
            serde_json::from_slice(&std::fs::read(dir.path().join(JOB)).expect("read")).expect("JSON");
        assert_eq!(
            kept,
            serde_json::json!({"run_id": "r", "output": "requests", "part": {"worker": 1, "of": 3}})
        );
        assert_eq!(std::fs::read(dir.path().join("f.csv")).expect("read"), b"a,b\n1,2\n");
    }

    #[test]
    fn what_was_not_announced_is_refused() {
        let job = b"{}";
        let cases: [(Vec<u8>, Content, Vec<File>, &str); 8] = [
            (
                pieces(&[b"{} "]),
                content(job),
                vec![],
                "the job: a piece of 3 bytes where 2 more are expected",
            ),
            (pieces(&[b"[]"]), content(job), vec![], "its checksum is"),
            (pieces(&[b"{"]), content(job), vec![], "the connection has ended"),
            (pieces(&[b""]), content(job), vec![], "a piece of 0 bytes"),
            (pieces(&[b"[]"]), content(b"[]"), vec![], "no JSON object"),
            (pieces(&[job]), content(job), vec![file("../x", b"")], "\"../x\" is no name for a file"),
            (pieces(&[job]), content(job), vec![file("job.json", b"")], "\"job.json\" is no name"),
            (vec![], Content { bytes: u64::MAX, crc32: 0 }, vec![], "at most 268435456 are taken"),
        ];
        for (sent, job, files, expected) in cases {
            let dir = tempfile::tempdir().expect("a folder");
            let told = take(&mut &sent[..], dir.path(), job, PART, &files).expect_err(expected).to_string();
            assert!(told.contains(expected), "{told}: {expected}");
        }
    }
}
