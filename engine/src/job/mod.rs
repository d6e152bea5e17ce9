//! The job: what the engine is asked to do. Plain data; its JSON form is docs/job.md.
mod csv_strict;
mod cursor;
mod demand;
mod feeds;
mod journey;
mod load;
mod parse;
mod part;
mod steps;
mod steps_answer;
mod steps_body;
mod steps_request;
mod target;
mod targets;
mod unique;
mod url;
mod workload;

pub use demand::share;
pub use feeds::{Feed, Order, Table};
pub use journey::{
    Body, Branch, Capture, CloudEvent, Expect, HeaderCheck, HeaderRule, If, Journey, JsonCheck, JsonRule,
    Part, PartContent, Pick, Repeat, Request, Source, StatusSet, Step,
};
pub use load::{
    Arrivals, Closed, Line, Load, Open, Pause, SessionSpan, Shape, Sine, Stage, Times, Timing, WhenFull,
};
pub use part::OwnPart;
use std::fmt;
use std::path::{Path, PathBuf};
pub use target::{Dns, DnsCache, Instance, Protocol, Proxy, ProxyKind, Target, TlsOptions, TlsVersion};
pub use url::{BaseUrl, bracketed};
pub use workload::{Cold, ConnectionPolicy, Connections, Workload};

/// A run may last this long at most; a typo in a duration is caught, a soak test of a week is not.
pub const MAX_DURATION_US: u64 = 31 * 24 * 3600 * 1_000_000;
/// Bytes of a job file that are read at most.
pub const MAX_JOB_BYTES: u64 = 256 << 20;
/// Load threads at most (a row has 8 bits for the worker).
pub const MAX_THREADS: u64 = 128;

/// One thing that is wrong with a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where: `$.workloads[0].load.model`.
    pub path: String,
    /// What was found and what is allowed.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// A whole job, checked.
#[derive(Clone, Debug)]
pub struct Job {
    /// Names the run in templates.
    pub run_id: String,
    /// Root of every random choice.
    pub seed: u64,
    /// Directory of the logs; `<output>.parquet` is made beside it.
    pub output: PathBuf,
    /// Load threads of this engine.
    pub threads: usize,
    /// Which part is this engine's; none if it is alone.
    pub part: Option<OwnPart>,
    /// Priority of the load threads.
    pub nice: Option<i32>,
    /// CPUs of the load threads; empty = any.
    pub cpus: Vec<usize>,
    /// How requests are spread over the instances of a target.
    pub spread: Spread,
    /// The response header that names the instance.
    pub instance_header: Option<String>,
    /// Share of requests that carry a `traceparent` header.
    pub traceparent: f64,
    /// Named addresses.
    pub targets: Vec<Target>,
    /// Whom to ask for names.
    pub dns: Dns,
    /// Tables that templates take values from.
    pub feeds: Vec<Feed>,
    /// What is driven.
    pub workloads: Vec<Workload>,
    /// Hard bounds.
    pub limits: Limits,
}

/// How requests are spread over the instances of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// A new connection goes to an instance drawn at random: what kube-proxy does.
    PerConnectionRandom,
    /// Every request goes to the next instance.
    PerRequestRoundRobin,
    /// Every request goes to the instance with the fewest requests in flight from this thread.
    LeastOutstanding,
}

/// Hard bounds.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of one answer.
    pub max_body_bytes: u64,
    /// Of one answer, interim answers and trailers included.
    pub max_header_bytes: u64,
    /// Open at once, over all threads of all workers.
    pub max_connections: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_body_bytes: 64 << 20, max_header_bytes: 64 << 10, max_connections: 10_000 }
    }
}

impl Job {
    /// Parses and checks; on failure says everything that is wrong. Relative paths are relative to the current folder.
    pub fn from_json(text: &str) -> Result<Self, Vec<Problem>> {
        Self::from_json_in(text, Path::new(""))
    }

    /// As [`Job::from_json`]; relative paths of files are relative to `folder`.
    pub fn from_json_in(text: &str, folder: &Path) -> Result<Self, Vec<Problem>> {
        let value = unique::from_slice(text.as_bytes())
            .map_err(|e| vec![Problem { path: "$".into(), message: format!("not JSON: {e}") }])?;
        parse::job(&value, folder)
    }

    /// Reads, parses and checks a file.
    pub fn from_file(path: &Path) -> Result<Self, Vec<Problem>> {
        let fail = |message: String| vec![Problem { path: String::new(), message }];
        let shown = path.display();
        let size = std::fs::metadata(path).map_err(|e| fail(format!("cannot read {shown}: {e}")))?.len();
        if size > MAX_JOB_BYTES {
            return Err(fail(format!("{shown} has {size} bytes; at most {MAX_JOB_BYTES} are read")));
        }
        let text = std::fs::read_to_string(path).map_err(|e| fail(format!("cannot read {shown}: {e}")))?;
        let job = Self::from_json_in(&text, path.parent().unwrap_or(Path::new("")))?;
        let records = job.records();
        if records.exists() {
            let message = format!(
                "the records of an earlier run are there: {}; name another output, or move them away",
                records.display()
            );
            return Err(vec![Problem { path: "$.output".into(), message }]);
        }
        Ok(job)
    }

    /// The file that the logs are made into.
    pub fn records(&self) -> PathBuf {
        let mut name = self.output.file_name().unwrap_or_default().to_owned();
        name.push(".parquet");
        self.output.with_file_name(name)
    }

    /// Sessions of an open workload that a lane may have in flight.
    pub fn session_bound(&self, workload: usize, lane: usize) -> usize {
        demand::session_bound(self, &self.workloads[workload], lane) as usize
    }

    /// Connections that a lane may have open.
    pub fn connection_bound(&self, lane: usize) -> usize {
        share(self.limits.max_connections, lane, self.lanes()).max(1) as usize
    }

    /// Length of the longest schedule.
    pub fn duration_us(&self) -> u64 {
        self.workloads.iter().map(|w| w.load.duration_us()).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod journey_tests;
#[cfg(test)]
mod tests;
