//! Compaction: every row, in order, in bounded memory; repeatable after a kill at any moment.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, RowAccessor};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use towtank_engine::record::compact::{CompactError, compact};
use towtank_engine::record::log::{LogWriter, NameKind};
use towtank_engine::record::names::RunInfo;
use towtank_engine::record::row::{NONE_INSTANCE, NONE_U32, Row, flags};

fn row(scheduled_us: i64, n: u32) -> Row {
    Row {
        scheduled_us,
        lag_us: n,
        wait_us: 0,
        dns_us: NONE_U32,
        connect_us: if n.is_multiple_of(3) { n } else { NONE_U32 },
        tls_us: NONE_U32,
        ttfb_us: n + 1,
        after_ttfb_us: 2,
        bytes_out: 100,
        bytes_in: 4_000_000_000,
        iteration: n,
        user: 0,
        status: if n.is_multiple_of(5) { 0 } else { 200 },
        step: (n % 2) as u16,
        instance: if n.is_multiple_of(7) { NONE_INSTANCE } else { 0 },
        outcome: u8::from(n.is_multiple_of(5)),
        workload: 0,
        target: 0,
        worker: 0,
        attempt: 0,
        flags: flags::REUSED
            | ((n % 8) as u8) << flags::REDIRECTS_SHIFT
            | if n.is_multiple_of(2) { flags::COLD_KNOWN | flags::COLD } else { 0 },
    }
}

fn names(of: &[&str]) -> BTreeMap<u16, String> {
    (0u16..).zip(of.iter().map(|&name| name.to_owned())).collect()
}

/// Two logs whose ids differ; rows are shuffled as far as they come in chunks.
fn write_logs(dir: &Path, rows: u32) {
    for thread in 0..2u8 {
        let mut log = LogWriter::create(dir, thread).unwrap();
        if thread == 0 {
            log.run(&RunInfo { run_id: "r1".into(), warmup_us: BTreeMap::from([("shop".into(), 7)]) })
                .unwrap();
        }
        log.names(NameKind::Workload, &names(&["shop"])).unwrap();
        log.names(NameKind::Step, &names(if thread == 0 { &["list", "read"] } else { &["read", "list"] }))
            .unwrap();
        log.names(NameKind::Target, &names(&["app"])).unwrap();
        log.names(NameKind::Outcome, &names(&["answered", "reset"])).unwrap();
        log.names(NameKind::Instance, &names(&["app-ü"])).unwrap();
        for n in 0..rows {
            let shuffled = i64::from(n ^ 5) * 10;
            let mut row = row(shuffled, n);
            row.worker = thread;
            log.push(&row).unwrap();
            if n % 50 == 49 {
                log.flush().unwrap();
            }
        }
        log.finish().unwrap();
    }
}

fn read(path: &Path) -> Vec<parquet::record::Row> {
    let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
    reader.get_row_iter(None).unwrap().map(Result::unwrap).collect()
}

struct Folder {
    dir: tempfile::TempDir,
}

impl Folder {
    fn new(rows: u32) -> Self {
        let folder = Self { dir: tempfile::tempdir().unwrap() };
        write_logs(&folder.logs(), rows);
        folder
    }

    fn logs(&self) -> PathBuf {
        self.dir.path().join("requests")
    }

    fn out(&self) -> PathBuf {
        self.dir.path().join("requests.parquet")
    }

    fn log_names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.logs()).into_iter().flatten();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn every_row_comes_back_sorted_with_its_names() {
    let folder = Folder::new(1000);
    let done = compact(&folder.logs(), &folder.out()).unwrap();
    assert_eq!((done.rows, done.torn_logs, done.already_done), (2000, 0, false));
    let bytes = std::fs::read(folder.out()).unwrap();
    assert_eq!((done.bytes, done.crc32), (bytes.len() as u64, crc32fast::hash(&bytes)));
    assert!(!folder.logs().exists(), "the logs are gone, and their folder with them");

    let rows = read(&folder.out());
    for (i, found) in rows.iter().enumerate() {
        let (i, worker) = (i / 2, i % 2);
        let n = (i as u32) ^ 5;
        let fields: BTreeMap<&str, &Field> =
            found.get_column_iter().map(|(name, f)| (name.as_str(), f)).collect();
        let text = |name: &str| fields[name].to_string().trim_matches('"').to_owned();
        assert_eq!(found.get_long(0).unwrap(), i as i64 * 10);
        assert_eq!(fields["worker"], &Field::Int(worker as i32));
        assert_eq!(fields["lag_us"], &Field::Int(n as i32));
        assert_eq!(fields["dns_us"], &Field::Null);
        assert_eq!(fields["connect_us"] == &Field::Null, !n.is_multiple_of(3));
        assert_eq!(fields["ttfb_us"], &Field::Int(n as i32 + 1));
        assert_eq!(fields["status"], &if n.is_multiple_of(5) { Field::Null } else { Field::Int(200) });
        assert_eq!(text("outcome"), if n.is_multiple_of(5) { "reset" } else { "answered" });
        assert_eq!(fields["bytes_in"], &Field::Long(4_000_000_000));
        assert_eq!(text("step"), ["list", "read"][(n as usize + worker) % 2], "ids are those of their log");
        assert_eq!(text("instance"), if n.is_multiple_of(7) { "null" } else { "app-ü" });
        assert_eq!((text("http_version"), fields["reused"]), ("1.1".to_owned(), &Field::Bool(true)));
        assert_eq!(fields["redirects"], &Field::Int(i32::try_from(n % 8).unwrap()));
        assert_eq!(fields["cold"], &if n.is_multiple_of(2) { Field::Bool(true) } else { Field::Null });
    }
    assert_eq!(rows.len(), 2000);
}

#[test]
fn repeating_it_is_harmless_whatever_was_done_before() {
    let folder = Folder::new(100);
    let first = compact(&folder.logs(), &folder.out()).unwrap();
    let again = compact(&folder.logs(), &folder.out()).unwrap();
    assert!(again.already_done);
    assert_eq!((again.rows, again.bytes, again.crc32), (first.rows, first.bytes, first.crc32));

    // Cut off between the rename and the deletion of the second log.
    write_logs(&folder.logs(), 100);
    std::fs::remove_file(folder.logs().join("thread-0.log")).unwrap();
    assert!(compact(&folder.logs(), &folder.out()).unwrap().already_done);
    assert!(!folder.logs().exists());
}

#[test]
fn logs_of_another_run_are_not_deleted() {
    let folder = Folder::new(100);
    compact(&folder.logs(), &folder.out()).unwrap();
    write_logs(&folder.logs(), 101);
    let error = compact(&folder.logs(), &folder.out()).unwrap_err();
    assert!(matches!(error, CompactError::Conflict { .. }), "{error}");
    assert_eq!(folder.log_names(), ["thread-0.log", "thread-1.log"]);
}

#[test]
fn torn_logs_give_what_is_whole() {
    let folder = Folder::new(1000);
    let path = folder.logs().join("thread-1.log");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    std::fs::write(folder.logs().join("thread-2.log"), b"TTLG").unwrap();
    std::fs::write(folder.dir.path().join("requests.parquet.tmp"), b"left by a killed compaction").unwrap();
    let done = compact(&folder.logs(), &folder.out()).unwrap();
    assert_eq!(done.torn_logs, 2);
    assert!(done.rows > 1400 && done.rows < 1500, "{}", done.rows);
    assert_eq!(read(&folder.out()).len() as u64, done.rows);
    assert!(!folder.dir.path().join("requests.parquet.tmp").exists());
}

#[test]
fn no_rows_is_a_file_and_no_logs_is_an_error() {
    let folder = Folder::new(0);
    assert_eq!(compact(&folder.logs(), &folder.out()).unwrap().rows, 0);
    assert!(read(&folder.out()).is_empty());
    let error = compact(&folder.dir.path().join("none"), &folder.dir.path().join("x.parquet")).unwrap_err();
    assert!(matches!(error, CompactError::NoLogs { .. }));
}

#[test]
fn killed_at_any_moment_the_next_one_completes_it() {
    let whole = Folder::new(30_000);
    let expected = compact(&whole.logs(), &whole.out()).unwrap();
    let mut cut_off = 0;
    for delay_us in [0, 2_000, 10_000, 30_000, 60_000, 90_000, 120_000, 200_000] {
        let folder = Folder::new(30_000);
        let mut child = Command::new(env!("CARGO_BIN_EXE_towtank-engine"))
            .arg("compact")
            .args([folder.logs(), folder.out()])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(delay_us));
        child.kill().unwrap();
        child.wait().unwrap();
        cut_off += u32::from(!folder.out().exists());
        if !folder.out().exists() {
            assert_eq!(folder.log_names().len(), 2, "the logs stay until the file is there");
        }
        let done = compact(&folder.logs(), &folder.out()).unwrap();
        assert_eq!((done.rows, done.crc32), (expected.rows, expected.crc32), "after {delay_us} µs");
        assert!(!folder.logs().exists());
    }
    assert!(cut_off > 0, "no kill came in time to mean something");
}

#[test]
fn pyarrow_and_duckdb_read_the_same() {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.venv/bin/python");
    if !python.exists() {
        println!("NOT RUN: no .venv with pyarrow and duckdb");
        return;
    }
    let folder = Folder::new(3000);
    compact(&folder.logs(), &folder.out()).unwrap();
    let script = r"
import sys, json, duckdb, pyarrow.parquet as pq
path = sys.argv[1]
table = pq.read_table(path)
assert table.num_rows == 6000
assert str(table.schema.field('scheduled_us').type) == 'int64' and str(table.schema.field('step').type) == 'string'
assert table.column('status').null_count == 1200, table.column('status').null_count
assert json.loads(table.schema.metadata[b'towtank.run'])['warmup_us'] == {'shop': 7}
other = duckdb.sql(f'from read_parquet({path!r})').to_arrow_table()
assert other.column_names == table.column_names
for name in table.column_names:
    assert table.column(name).to_pylist() == other.column(name).to_pylist(), name
few = duckdb.sql(f'select count(*) from read_parquet({path!r}) where instance is null').fetchall()[0]
assert few[0] == table.column('instance').null_count > 0, few
";
    let output = Command::new(python).args(["-c", script]).arg(folder.out()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
