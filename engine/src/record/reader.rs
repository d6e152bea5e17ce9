//! Reading logs back, torn tails included: everything up to the first damage, nothing after it.

use super::batch::{HEADER_BYTES, Header, Kind, MAGIC, VERSION, version};
use super::names::NamesPayload;
use super::row::{ROW_BYTES, Row};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

/// Why a log cannot be read at all. Damage is no error: it ends the log.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Not ours to understand.
    #[error("log format {0} is newer than {VERSION}, which this engine reads")]
    NewerVersion(u16),
}

/// One good batch.
#[derive(Clone, Debug, PartialEq)]
pub enum Batch<'a> {
    /// Rows of [`ROW_BYTES`] each, and where in the file they begin.
    Rows {
        /// Of the first row.
        offset: u64,
        /// See [`rows`].
        bytes: &'a [u8],
    },
    /// Names, or facts of the run.
    Names(NamesPayload),
}

/// The rows of a batch.
pub fn rows(bytes: &[u8]) -> impl ExactSizeIterator<Item = Row> + '_ {
    bytes.as_chunks::<ROW_BYTES>().0.iter().map(Row::decode)
}

/// How a log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With its `end` batch: nothing is missing.
    Whole,
    /// Without: its writer was killed, could not write, or writes still. Good up to this offset.
    Torn(u64),
}

/// Reads one log from its beginning.
pub struct LogReader<R> {
    source: R,
    offset: u64,
    sequence: u32,
    rows: u64,
    payload: Vec<u8>,
    digest: crc32fast::Hasher,
    end: Option<End>,
}

impl LogReader<BufReader<File>> {
    /// Opens a log.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self::new(BufReader::new(File::open(path)?)))
    }
}

impl<R: Read> LogReader<R> {
    /// Over anything that gives the bytes of a log.
    pub fn new(source: R) -> Self {
        Self {
            source,
            offset: 0,
            sequence: 0,
            rows: 0,
            payload: Vec::new(),
            digest: crc32fast::Hasher::new(),
            end: None,
        }
    }

    /// How the log ended; known after [`LogReader::next_batch`] gave `None`.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// A checksum of all that was good so far: of the checksums of the batches.
    pub fn digest(&self) -> u32 {
        self.digest.clone().finalize()
    }

    /// Good rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The next good batch; `None` at the end.
    pub fn next_batch(&mut self) -> Result<Option<Batch<'_>>, ReadError> {
        if self.end.is_some() {
            return Ok(None);
        }
        let Some(header) = self.read_batch()? else {
            self.end = Some(End::Torn(self.offset));
            return Ok(None);
        };
        let offset = self.offset + HEADER_BYTES as u64;
        let rows_before = self.rows;
        let batch = match header.kind {
            Kind::Rows if self.payload.len() == header.count as usize * ROW_BYTES => {
                self.rows += u64::from(header.count);
                Some(Batch::Rows { offset, bytes: &self.payload })
            }
            Kind::Names => NamesPayload::parse(&self.payload)
                .ok()
                .filter(|names| names.count() == header.count)
                .map(Batch::Names),
            Kind::End if header.count == 0 && self.payload == rows_before.to_le_bytes() => {
                self.end = Some(End::Whole);
                return Ok(None);
            }
            Kind::Rows | Kind::End => None,
        };
        if batch.is_none() {
            self.end = Some(End::Torn(self.offset));
        } else {
            self.offset = offset + u64::from(header.payload_bytes);
            self.sequence += 1;
        }
        Ok(batch)
    }

    /// Reads header and payload; `None` when they are cut off or damaged.
    fn read_batch(&mut self) -> Result<Option<Header>, ReadError> {
        let mut head = [0; HEADER_BYTES];
        if !read_full(&mut self.source, &mut head)? {
            return Ok(None);
        }
        // Damage may hit the version too; only a log that begins with it is a newer one's.
        if self.offset == 0 && head[..4] == MAGIC && version(&head) > VERSION {
            return Err(ReadError::NewerVersion(version(&head)));
        }
        let Some(header) = Header::decode(&head).filter(|header| header.sequence == self.sequence) else {
            return Ok(None);
        };
        self.payload.resize(header.payload_bytes as usize, 0);
        let whole = read_full(&mut self.source, &mut self.payload)?;
        if !whole || crc32fast::hash(&self.payload) != header.crc32 {
            return Ok(None);
        }
        self.digest.update(&header.crc32.to_le_bytes());
        Ok(Some(header))
    }
}

/// False when the source ends before the buffer is full.
fn read_full(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match source.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::log::{LogWriter, NameKind};
    use crate::record::names::RunInfo;
    use crate::record::row::tests::any_row;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A log with batches of these sizes, and where each batch ends.
    fn log(batches: &[Vec<Row>]) -> (Vec<u8>, Vec<u64>) {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = LogWriter::create(dir.path(), 3).unwrap();
        let mut ends = Vec::new();
        writer.run(&RunInfo { run_id: "r".into(), ..RunInfo::default() }).unwrap();
        ends.push(writer.bytes());
        writer.names(NameKind::Step, &BTreeMap::from([(0, "list".to_owned())])).unwrap();
        ends.push(writer.bytes());
        for rows in batches {
            for row in rows {
                writer.push(row).unwrap();
            }
            writer.flush().unwrap();
            ends.push(writer.bytes());
        }
        let summary = writer.finish().unwrap();
        let bytes = std::fs::read(dir.path().join("thread-3.log")).unwrap();
        assert_eq!((summary.bytes, summary.crc32), (bytes.len() as u64, crc32fast::hash(&bytes)));
        (bytes, ends)
    }

    fn read(bytes: &[u8]) -> (Vec<Vec<Row>>, End) {
        let mut reader = LogReader::new(bytes);
        let mut found = Vec::new();
        while let Some(batch) = reader.next_batch().unwrap() {
            if let Batch::Rows { bytes, .. } = batch {
                found.push(rows(bytes).collect());
            }
        }
        (found, reader.end().unwrap())
    }

    fn any_batches() -> impl Strategy<Value = Vec<Vec<Row>>> {
        prop::collection::vec(prop::collection::vec(any_row(), 1..4), 0..4)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn cut_anywhere_all_whole_batches_come_back(batches in any_batches()) {
            let (bytes, ends) = log(&batches);
            prop_assert_eq!(read(&bytes), (batches.clone(), End::Whole));
            for cut in 0..bytes.len() {
                let whole = ends.iter().filter(|&&end| end <= cut as u64).count();
                let (found, end) = read(&bytes[..cut]);
                prop_assert_eq!(&found[..], &batches[..whole.saturating_sub(2)]);
                prop_assert_eq!(end, End::Torn(whole.checked_sub(1).map_or(0, |last| ends[last])));
            }
        }

        #[test]
        fn damaged_anywhere_nothing_wrong_comes_back(batches in any_batches(), flip in 1u8..=255) {
            let (mut bytes, ends) = log(&batches);
            for at in 0..bytes.len() {
                bytes[at] ^= flip;
                let whole = ends.iter().filter(|&&end| end <= at as u64).count();
                let newer = at == 4 || at == 5;
                if !newer {
                    let (found, end) = read(&bytes);
                    prop_assert_eq!(&found[..], &batches[..whole.saturating_sub(2)], "byte {}", at);
                    prop_assert_ne!(end, End::Whole);
                }
                bytes[at] ^= flip;
            }
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = LogReader::new(&bytes[..]).next_batch();
        }
    }

    #[test]
    fn a_newer_log_is_refused_by_name() {
        let (mut bytes, _) = log(&[]);
        bytes[4] = 9;
        let error = LogReader::new(&bytes[..]).next_batch().unwrap_err();
        assert!(error.to_string().contains("log format 9"));
    }

    #[test]
    fn a_full_buffer_is_written_by_itself() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = LogWriter::create(dir.path(), 0).unwrap();
        let row = Row::decode(&[7; ROW_BYTES]);
        for _ in 0..4097 {
            writer.push(&row).unwrap();
        }
        assert_eq!(writer.bytes(), (HEADER_BYTES + 4096 * ROW_BYTES) as u64);
        writer.flush_due(crate::record::log::FLUSH_AFTER_NS - 1).unwrap();
        assert_eq!(writer.bytes(), (HEADER_BYTES + 4096 * ROW_BYTES) as u64, "not due yet");
        writer.flush_due(crate::record::log::FLUSH_AFTER_NS).unwrap();
        assert_eq!(writer.bytes(), (2 * HEADER_BYTES + 4097 * ROW_BYTES) as u64);
        assert!(LogWriter::create(dir.path(), 0).is_err(), "a log is never overwritten");
        assert_eq!(writer.finish().unwrap().rows, 4097);
    }
}
