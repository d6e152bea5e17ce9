//! The job: what the engine is asked to do. Plain data; its JSON form is docs/formats.md, section 1.
mod cursor;
mod load;
mod parse;
mod steps;
mod url;

use std::fmt;
use std::path::{Path, PathBuf};
pub use url::BaseUrl;

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
    /// Load threads.
    pub threads: usize,
    /// Priority of the load threads.
    pub nice: Option<i32>,
    /// CPUs of the load threads; empty = any.
    pub cpus: Vec<usize>,
    /// How requests are spread over the instances of a target.
    pub spread: Spread,
    /// The response header that names the instance.
    pub instance_header: Option<String>,
    /// Named addresses.
    pub targets: Vec<Target>,
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

/// A named address that steps go to.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its name in journeys and records.
    pub name: String,
    /// Its replicas.
    pub instances: Vec<Instance>,
    /// Headers of every request to it.
    pub headers: Vec<(String, String)>,
}

/// One replica of a target.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Its name in the records.
    pub name: String,
    /// Where it listens.
    pub url: BaseUrl,
}

/// A load model and a journey.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Its name in the records.
    pub name: String,
    /// Rows scheduled before this are flagged.
    pub warmup_us: u64,
    /// Longest time of a request, unless its step says otherwise.
    pub timeout_us: u64,
    /// When.
    pub load: Load,
    /// What.
    pub journey: Journey,
}

/// When iterations begin.
#[derive(Clone, Debug)]
pub enum Load {
    /// A population of virtual users over time.
    Closed(Closed),
    /// An arrival rate over time.
    Open(Open),
}

impl Load {
    /// The stages, whatever they are in.
    pub fn stages(&self) -> &[Stage] {
        match self {
            Self::Closed(closed) => &closed.stages,
            Self::Open(open) => &open.stages,
        }
    }

    /// Length of the schedule.
    pub fn duration_us(&self) -> u64 {
        self.stages().iter().map(|s| s.duration_us).sum()
    }
}

/// A stretch of a load model: linear from one level to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// For people.
    pub name: Option<String>,
    /// Level at its start: users, or arrivals per second.
    pub from: f64,
    /// Level at its end.
    pub to: f64,
    /// Its length.
    pub duration_us: u64,
}

/// A population of virtual users.
#[derive(Clone, Debug)]
pub struct Closed {
    /// Population over time.
    pub stages: Vec<Stage>,
    /// How long a retiring user may take to finish its iteration.
    pub graceful_us: u64,
    /// What lives as long as the user and what as long as one iteration.
    pub session: Session,
    /// A user starts at most this many iterations per second; what it missed it does not catch up.
    pub max_rate_per_user_per_s: Option<f64>,
    /// Start of an iteration → start of the next.
    pub pacing: Option<Pause>,
    /// Stop after this many, over all users.
    pub iterations: Option<u64>,
    /// Stop each user after this many.
    pub iterations_per_user: Option<u64>,
}

/// Lifetime of a user's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Session {
    /// Kept across iterations.
    User,
    /// Fresh in every iteration.
    Iteration,
}

/// Arrivals.
#[derive(Clone, Debug)]
pub struct Open {
    /// How arrivals fall.
    pub arrivals: Arrivals,
    /// Rate over time.
    pub stages: Vec<Stage>,
    /// Sessions in flight at most; none = only the hard bound.
    pub max_in_flight: Option<u64>,
    /// What becomes of an arrival above the bound.
    pub when_full: WhenFull,
    /// Stop after this many.
    pub max_arrivals: Option<u64>,
}

/// How arrivals fall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Evenly, as the rate says.
    Uniform,
    /// A Poisson process of that rate.
    Poisson,
}

/// What becomes of an arrival above the bound in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// It waits, up to the timeout.
    Queue,
    /// It becomes a row `not_sent` at once.
    Drop,
}

/// A pause between steps or iterations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pause {
    /// Always the same.
    Constant(u64),
    /// Evenly between two bounds, both included.
    Uniform(u64, u64),
    /// Exponential with this mean.
    Exponential(u64),
}

/// What one virtual user does in one iteration.
#[derive(Clone, Debug)]
pub struct Journey {
    /// Pause after every step that names none of its own.
    pub think: Option<Pause>,
    /// In order.
    pub steps: Vec<Step>,
}

/// A step of a journey.
#[derive(Clone, Debug)]
pub enum Step {
    /// One request.
    Request(Box<Request>),
    /// One branch of several, by weight.
    Choose(Vec<Branch>),
}

/// A branch of a choice.
#[derive(Clone, Debug)]
pub struct Branch {
    /// Its share is weight ÷ sum of weights.
    pub weight: f64,
    /// What it does.
    pub steps: Vec<Step>,
}

/// One request of a journey.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its name in the records.
    pub name: String,
    /// In capitals.
    pub method: String,
    /// Index into [`Job::targets`].
    pub target: usize,
    /// From the slash; may hold a template.
    pub path: String,
    /// Values may hold templates.
    pub headers: Vec<(String, String)>,
    /// May hold a template.
    pub body: Option<String>,
    /// Overrides the workload's.
    pub timeout_us: Option<u64>,
    /// What makes the answer a good one.
    pub expect: Expect,
    /// Overrides the journey's.
    pub think: Option<Pause>,
    /// Where it stands in the job, for messages.
    pub at: String,
}

/// What makes an answer a good one.
#[derive(Clone, Debug)]
pub struct Expect {
    /// Allowed statuses.
    pub status: StatusSet,
    /// The body must hold this.
    pub contains: Option<String>,
}

/// A set of status codes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatusSet([u64; 10]);

impl StatusSet {
    /// Adds one code; those of 640 and above are never members.
    pub fn insert(&mut self, code: u16) {
        if let Some(word) = self.0.get_mut(usize::from(code / 64)) {
            *word |= 1 << (code % 64);
        }
    }

    /// Membership.
    pub fn contains(&self, code: u16) -> bool {
        self.0.get(usize::from(code / 64)).is_some_and(|word| word >> (code % 64) & 1 == 1)
    }
}

/// Hard bounds.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of one answer.
    pub max_body_bytes: u64,
    /// Of one answer, interim answers and trailers included.
    pub max_header_bytes: u64,
    /// Open at once, over all threads.
    pub max_connections: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_body_bytes: 64 << 20, max_header_bytes: 64 << 10, max_connections: 10_000 }
    }
}

impl Job {
    /// Parses and checks; on failure says everything that is wrong.
    pub fn from_json(text: &str) -> Result<Self, Vec<Problem>> {
        let value = serde_json::from_str(text)
            .map_err(|e| vec![Problem { path: "$".into(), message: format!("not JSON: {e}") }])?;
        parse::job(&value)
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
        Self::from_json(&text)
    }

    /// Length of the longest schedule.
    pub fn duration_us(&self) -> u64 {
        self.workloads.iter().map(|w| w.load.duration_us()).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
