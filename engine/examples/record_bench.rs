//! What a record costs: CPU on the hot path, CPU and memory of compaction, bytes on disk.
//!
//! `cargo run --release --example record_bench -- [ROWS] [open|poisson|closed|journey|shuffled] [--keep FILE]`
//!
//! Rows are synthetic but shaped like those of a keep-alive run: log-normal times with a tail, few connects, rows written
//! when their request ends; `shuffled` is the worst that a log can be. Memory is the peak of this process, the making of the rows included.
#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use parquet::file::reader::{FileReader, SerializedFileReader};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::PathBuf;
use std::time::Instant;
use towtank_engine::record::compact::compact;
use towtank_engine::record::log::{LogWriter, NameKind};
use towtank_engine::record::names::RunInfo;
use towtank_engine::record::row::{NONE_U32, ROW_BYTES, Row, flags};

const RATE_PER_S: f64 = 20_000.0;
const USERS: u32 = 64;
const THREADS: u8 = 2;

/// xorshift64*
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// In (0, 1].
    fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.unit().ln()
    }

    fn log_normal(&mut self, median: f64, sigma: f64) -> f64 {
        let normal = (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos();
        median * (sigma * normal).exp()
    }
}

/// A request that is due then.
fn request(random: &mut Random, shape: &str, scheduled_us: i64, n: u64) -> Row {
    let mut ttfb = random.log_normal(180.0, 0.4);
    if random.unit() < 0.01 {
        ttfb += random.exponential(5_000.0);
    }
    if random.unit() < 1e-5 {
        ttfb += 2_000_000.0;
    }
    let opened = random.unit() < 1e-4;
    let (user, iteration) = if shape == "closed" {
        ((n % u64::from(USERS)) as u32, (n / u64::from(USERS)) as u32)
    } else {
        (n as u32, 0)
    };
    let step = if shape == "journey" { (random.bits() % 4) as u16 } else { 0 };
    Row {
        scheduled_us,
        lag_us: 3 + random.exponential(6.0) as u32,
        wait_us: 0,
        dns_us: NONE_U32,
        connect_us: if opened { 60 + random.exponential(20.0) as u32 } else { NONE_U32 },
        tls_us: NONE_U32,
        ttfb_us: ttfb as u32,
        after_ttfb_us: 2 + random.exponential(3.0) as u32,
        bytes_out: 97 + u32::from(step) * 12,
        bytes_in: if shape == "journey" { 300 + (random.bits() % 64) as u32 } else { 331 },
        iteration,
        user,
        status: if shape == "journey" && random.unit() < 1e-3 { 503 } else { 200 },
        step,
        instance: if shape == "journey" { (random.bits() % 2) as u16 } else { 0 },
        outcome: 0,
        workload: 0,
        target: 0,
        worker: (n % u64::from(THREADS)) as u8,
        attempt: 0,
        flags: if opened { 0 } else { flags::REUSED },
    }
}

/// Gives the rows in the order in which their requests end.
fn generate(rows: u64, shape: &str, mut write: impl FnMut(&Row)) {
    let mut random = Random(7);
    let mut in_flight: BinaryHeap<Reverse<(i64, u64, [u8; ROW_BYTES])>> = BinaryHeap::new();
    let mut now = 0.0;
    for n in 0..rows {
        now += if shape == "open" { 1e6 / RATE_PER_S } else { random.exponential(1e6 / RATE_PER_S) };
        let mut row = request(&mut random, shape, now as i64, n);
        if shape == "shuffled" {
            row.scheduled_us = (random.bits() % (rows * 50)) as i64;
            write(&row);
            continue;
        }
        let end =
            row.scheduled_us + i64::from(row.lag_us) + i64::from(row.ttfb_us) + i64::from(row.after_ttfb_us);
        in_flight.push(Reverse((end, n, row.encode())));
        while in_flight.peek().is_some_and(|Reverse((end, ..))| *end <= row.scheduled_us) {
            if let Some(Reverse((_, _, bytes))) = in_flight.pop() {
                write(&Row::decode(&bytes));
            }
        }
    }
    while let Some(Reverse((_, _, bytes))) = in_flight.pop() {
        write(&Row::decode(&bytes));
    }
}

fn write_logs(dir: &std::path::Path, rows: u64, shape: &str) -> (u64, f64) {
    let mut logs: Vec<LogWriter> =
        (0..THREADS).map(|thread| LogWriter::create(dir, thread).unwrap()).collect();
    logs[0].run(&RunInfo { run_id: "bench".to_owned(), ..RunInfo::default() }).unwrap();
    let tables = [
        (NameKind::Workload, vec!["shop"]),
        (NameKind::Step, vec!["list", "read", "write", "cpu"]),
        (NameKind::Target, vec!["app"]),
        (NameKind::Instance, vec!["app-0", "app-1"]),
        (NameKind::Outcome, vec!["answered"]),
    ];
    for log in &mut logs {
        for (kind, names) in &tables {
            let names: BTreeMap<u16, String> = (0u16..).zip(names.iter().map(|&n| n.to_owned())).collect();
            log.names(*kind, &names).unwrap();
        }
    }
    generate(rows, shape, |row| logs[usize::from(row.worker)].push(row).unwrap());
    let bytes = logs.into_iter().map(|log| log.finish().unwrap().bytes).sum();
    (bytes, push_cost_us(dir))
}

/// The hot path alone: the same row again and again, batches written and all.
fn push_cost_us(dir: &std::path::Path) -> f64 {
    const PUSHES: u64 = 2_000_000;
    let mut log = LogWriter::create(&dir.join("push"), 0).unwrap();
    let row = request(&mut Random(1), "open", 1, 1);
    let before = cpu_us();
    for _ in 0..PUSHES {
        log.push(std::hint::black_box(&row)).unwrap();
    }
    let cost = (cpu_us() - before) / PUSHES as f64;
    log.finish().unwrap();
    std::fs::remove_dir_all(dir.join("push")).unwrap();
    cost
}

fn cpu_us() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as f64 * 1e6 + now.tv_nsec as f64 / 1e3
}

fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rows: u64 = arguments.first().map_or(1_000_000, |n| n.parse().unwrap());
    let shape = arguments.get(1).map_or("open", String::as_str);
    let dir = tempfile::tempdir().unwrap();
    let logs = dir.path().join("requests");
    let out = match arguments.get(2).map(String::as_str) {
        Some("--keep") => PathBuf::from(&arguments[3]),
        _ => dir.path().join("requests.parquet"),
    };
    let (log_bytes, push_us) = write_logs(&logs, rows, shape);
    let peak_before = peak_mib();
    let (start, before) = (Instant::now(), cpu_us());
    let done = compact(&logs, &out).unwrap();
    let (wall_s, spent_us) = (start.elapsed().as_secs_f64(), cpu_us() - before);
    assert_eq!(done.rows, rows);

    println!("{rows} rows, {shape}");
    println!(
        "  log            {:6.2} bytes/record   {push_us:.4} µs CPU/record to write",
        log_bytes as f64 / rows as f64
    );
    println!(
        "  parquet        {:6.2} bytes/record   {:.3} µs CPU/record to compact ({wall_s:.2} s)",
        done.bytes as f64 / rows as f64,
        spent_us / rows as f64
    );
    println!("  peak memory    {:6} MiB (before compaction {peak_before} MiB)", peak_mib());
    let file = SerializedFileReader::new(std::fs::File::open(&out).unwrap()).unwrap();
    for (i, column) in file.metadata().file_metadata().schema_descr().columns().iter().enumerate() {
        let bytes: i64 = file.metadata().row_groups().iter().map(|g| g.column(i).compressed_size()).sum();
        if bytes as u64 * 100 > rows {
            println!("    {:14} {:6.3} bytes/record", column.name(), bytes as f64 / rows as f64);
        }
    }
}
