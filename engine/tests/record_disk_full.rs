//! A full disk: said, and what was written stays readable.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::path::Path;
use std::process::Command;
use towtank_engine::record::batch::HEADER_BYTES;
use towtank_engine::record::compact::compact;
use towtank_engine::record::log::{BATCH_BYTES, LogWriter};
use towtank_engine::record::reader::{Batch, End, LogReader};
use towtank_engine::record::row::{ROW_BYTES, Row};

/// A tmpfs of a megabyte; unmounted with the test.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None`, and a line that says so, without the right to mount.
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m", "towtank-test"])
            .arg(dir.path())
            .output()
            .is_ok_and(|output| output.status.success());
        if !mounted {
            println!("NOT RUN: a small tmpfs cannot be mounted here (needs root)");
        }
        mounted.then_some(Self(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "{} stays mounted", self.path().display());
    }
}

const ROWS_PER_BATCH: u64 = (BATCH_BYTES / ROW_BYTES) as u64;

fn fill(log: &mut LogWriter, rows: u64) -> u32 {
    let row = Row::decode(&[3; ROW_BYTES]);
    (0..rows).filter(|_| log.push(&row).is_err()).count() as u32
}

fn good_rows(path: &Path) -> (u64, End) {
    let mut reader = LogReader::open(path).unwrap();
    while let Some(Batch::Rows { .. } | Batch::Names(_)) = reader.next_batch().unwrap() {}
    (reader.rows(), reader.end().unwrap())
}

#[test]
fn each_lost_batch_is_said_and_the_others_are_read() {
    let Some(disk) = SmallDisk::mount() else { return };
    std::fs::write(disk.path().join("ballast"), vec![0; 100_000]).unwrap();
    let mut log = LogWriter::create(&disk.path().join("requests"), 0).unwrap();
    // Three batches fit beside the ballast; the next three do not.
    assert_eq!(fill(&mut log, 6 * ROWS_PER_BATCH), 3);
    let path = disk.path().join("requests/thread-0.log");
    assert_eq!(
        std::fs::metadata(&path).unwrap().len(),
        3 * (HEADER_BYTES + BATCH_BYTES) as u64,
        "no torn batch stays"
    );
    assert_eq!(good_rows(&path), (3 * ROWS_PER_BATCH, End::Torn(3 * (HEADER_BYTES + BATCH_BYTES) as u64)));

    // With room again, the log goes on where it was.
    std::fs::remove_file(disk.path().join("ballast")).unwrap();
    assert_eq!(fill(&mut log, 10), 0);
    let summary = log.finish().unwrap();
    assert_eq!((summary.rows, summary.rows_lost), (3 * ROWS_PER_BATCH + 10, 3 * ROWS_PER_BATCH));
    assert_eq!(good_rows(&path), (summary.rows, End::Whole));
}

#[test]
fn a_compaction_without_room_leaves_the_logs_and_nothing_else() {
    let Some(disk) = SmallDisk::mount() else { return };
    let elsewhere = tempfile::tempdir().unwrap();
    let logs = elsewhere.path().join("requests");
    let mut log = LogWriter::create(&logs, 0).unwrap();
    // Noise does not compress.
    let mut state = 1u64;
    for _ in 0..60_000 {
        let mut bytes = [0; ROW_BYTES];
        for byte in &mut bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (state >> 56) as u8;
        }
        log.push(&Row::decode(&bytes)).unwrap();
    }
    log.finish().unwrap();
    let out = disk.path().join("requests.parquet");
    let error = compact(&logs, &out).unwrap_err().to_string();
    assert!(error.contains("No space left") || error.contains("os error 28"), "{error}");
    assert_eq!(std::fs::read_dir(disk.path()).unwrap().count(), 0);
    assert_eq!(good_rows(&logs.join("thread-0.log")).0, 60_000);
    assert_eq!(compact(&logs, &elsewhere.path().join("requests.parquet")).unwrap().rows, 60_000);
}
