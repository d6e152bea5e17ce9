//! Scripted servers and whole runs, for the tests of the load engine.
#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses its part of it")]

pub mod dns;
pub mod h2;
pub mod nginx;
pub mod patience;
pub mod ports;
pub mod proxy;
pub mod scripted;
pub mod server;
pub mod tls;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use towtank_engine::drive::{self, Events, Lifeline};
use towtank_engine::job::Job;
use towtank_engine::journey::Plan;

/// A row of `requests.parquet`, by column.
pub type Record = BTreeMap<String, Field>;

/// What a run left.
pub struct Outcome {
    pub events: Vec<Value>,
    pub records: Vec<Record>,
    pub dir: tempfile::TempDir,
}

#[expect(clippy::needless_pass_by_value, reason = "made where they are handed over")]
/// A job with one workload against one instance.
pub fn job(address: &str, load: Value, steps: Value) -> Value {
    json!({
        "version": 1, "run_id": "test", "seed": 7, "output": "",
        "targets": {"app": {"instances": [{"name": "app-0", "url": format!("http://{address}")}]}},
        "workloads": [{"name": "w", "timeout_us": 2_000_000, "load": load, "journey": {"steps": steps}}],
    })
}

/// One GET.
pub fn get() -> Value {
    json!([{"request": {"name": "get", "path": "/"}}])
}

/// A constant population.
pub fn closed(users: u32, duration_us: u64) -> Value {
    json!({"model": "closed", "stages": [{"from_users": users, "to_users": users, "duration_us": duration_us}]})
}

/// One user that does `count` iterations, for as long as they take.
pub fn times(count: u32) -> Value {
    let mut load = closed(1, 20_000_000);
    load["iterations"] = count.into();
    load
}

/// A constant rate.
pub fn open(per_s: f64, duration_us: u64) -> Value {
    json!({"model": "open", "stages": [{"from_per_s": per_s, "to_per_s": per_s, "duration_us": duration_us}]})
}

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Carries a job out in this process, without a lifeline.
pub fn run(job: Value) -> Outcome {
    run_in(job, Path::new(""))
}

/// As [`run`], for a job whose files lie in a folder.
pub fn run_in(mut job: Value, folder: &Path) -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().join("requests");
    job["output"] = output.to_str().unwrap().into();
    let plan =
        Job::from_json_in(&job.to_string(), folder).and_then(Plan::new).unwrap_or_else(|p| panic!("{p:?}"));
    let buffer = Buffer::default();
    drive::run(plan, Lifeline::None, Events::to(buffer.clone())).unwrap();
    let events = parse_events(&buffer.0.lock().unwrap());
    let records = read(&dir.path().join("requests.parquet"));
    Outcome { events, records, dir }
}

/// Lines of JSON.
pub fn parse_events(bytes: &[u8]) -> Vec<Value> {
    String::from_utf8_lossy(bytes).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// All rows of a file.
pub fn read(path: &Path) -> Vec<Record> {
    let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
    let record =
        |row: parquet::record::Row| row.get_column_iter().map(|(n, f)| (n.clone(), f.clone())).collect();
    reader.get_row_iter(None).unwrap().map(|row| record(row.unwrap())).collect()
}

/// A number, or none if it is null.
pub fn number(record: &Record, column: &str) -> Option<i64> {
    match &record[column] {
        Field::Int(n) => Some(i64::from(*n)),
        Field::Long(n) => Some(*n),
        Field::Null => None,
        other => panic!("{column} is {other:?}"),
    }
}

/// A text.
pub fn text(record: &Record, column: &str) -> String {
    match &record[column] {
        Field::Str(text) => text.clone(),
        other => panic!("{column} is {other:?}"),
    }
}

/// A truth value.
pub fn truth(record: &Record, column: &str) -> bool {
    record[column] == Field::Bool(true)
}

impl Outcome {
    /// The last event of a kind.
    pub fn event(&self, kind: &str) -> &Value {
        self.events.iter().rev().find(|e| e["event"] == kind).unwrap_or_else(|| panic!("no {kind}"))
    }

    /// Names of the findings.
    pub fn findings(&self) -> Vec<&str> {
        let findings = self.events.iter().filter(|e| e["event"] == "finding");
        findings.map(|e| e["name"].as_str().unwrap()).collect()
    }

    /// What the first finding of this name says.
    pub fn finding(&self, name: &str) -> &str {
        let found = self.events.iter().find(|e| e["event"] == "finding" && e["name"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {:?}", self.events))["message"].as_str().unwrap()
    }

    /// Outcome of each row.
    pub fn outcomes(&self) -> Vec<String> {
        self.records.iter().map(|r| text(r, "outcome")).collect()
    }

    /// A column of numbers.
    pub fn column(&self, name: &str) -> Vec<Option<i64>> {
        self.records.iter().map(|r| number(r, name)).collect()
    }

    /// A number of `done.counts`.
    pub fn count(&self, name: &str) -> u64 {
        self.event("done")["counts"][name].as_u64().unwrap()
    }
}

/// Largest distance between the distribution of some values and a model of it.
pub fn ks_distance(mut values: Vec<f64>, model: impl Fn(f64) -> f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len() as f64;
    let distance = |(i, x): (usize, &f64)| {
        let model = model(*x);
        (model - i as f64 / n).abs().max((model - (i + 1) as f64 / n).abs())
    };
    values.iter().enumerate().map(distance).fold(0.0, f64::max)
}

/// Writes a job into a folder.
pub fn write_job(dir: &Path, mut job: Value) -> PathBuf {
    job["output"] = dir.join("requests").to_str().unwrap().into();
    let path = dir.join("job.json");
    std::fs::write(&path, job.to_string()).unwrap();
    path
}
