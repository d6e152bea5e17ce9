//! Load models as data.
mod read;
mod times;

pub(super) use read::{pause, read};
pub use times::Times;

use std::sync::Arc;

/// Arrivals and users are numbered with 32 bits in a row.
pub const MAX_COUNT: u64 = 4_000_000_000;

/// When iterations begin.
#[derive(Clone, Debug)]
pub enum Load {
    /// A population of virtual users over time.
    Closed(Closed),
    /// An arrival rate over time.
    Open(Open),
}

impl Load {
    /// Length of the schedule.
    pub fn duration_us(&self) -> u64 {
        match self {
            Self::Closed(closed) => closed.stages.iter().map(|s| s.duration_us).sum(),
            Self::Open(open) => open.timing.duration_us(),
        }
    }
}

/// A stretch of a load model.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage<S> {
    /// For people.
    pub name: Option<String>,
    /// Its level over time.
    pub shape: S,
    /// Its length.
    pub duration_us: u64,
}

/// A level that goes evenly from one value to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Level at its start: users, or arrivals per second.
    pub from: f64,
    /// Level at its end.
    pub to: f64,
}

/// mean + amplitude · sin(2π (t/period + phase)), t from the start of the stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sine {
    /// Arrivals per second.
    pub mean: f64,
    /// At most the mean.
    pub amplitude: f64,
    /// Length of a wave.
    pub period_us: u64,
    /// In turns.
    pub phase: f64,
}

/// A rate over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// Linear.
    Line(Line),
    /// A wave.
    Sine(Sine),
}

impl Shape {
    /// The highest rate that it can have.
    pub fn peak(&self) -> f64 {
        match self {
            Self::Line(line) => line.from.max(line.to),
            Self::Sine(sine) => sine.mean + sine.amplitude,
        }
    }
}

/// A population of virtual users.
#[derive(Clone, Debug)]
pub struct Closed {
    /// Population over time.
    pub stages: Vec<Stage<Line>>,
    /// How long a retiring user may take to finish its iteration.
    pub graceful_us: u64,
    /// What lives as long as the user and what as long as one iteration.
    pub session: SessionSpan,
    /// Users that become active at the same instant begin this far apart in all.
    pub start_spread_us: u64,
    /// A user starts at most this many iterations per second.
    pub max_rate_per_user_per_s: Option<f64>,
    /// Start of an iteration → start of the next.
    pub pacing: Option<Pause>,
    /// What pacing or the rate cap asked for and was missed is made up for.
    pub catch_up: bool,
    /// Stop after this many, over all users.
    pub iterations: Option<u64>,
    /// Stop each user after this many.
    pub iterations_per_user: Option<u64>,
}

impl Closed {
    /// Users that are ever active.
    pub fn peak_users(&self) -> u64 {
        self.stages.iter().map(|s| s.shape.from.max(s.shape.to)).fold(0.0, f64::max).ceil() as u64
    }
}

/// Lifetime of what a user keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionSpan {
    /// Kept across iterations.
    User,
    /// Fresh in every iteration.
    Iteration,
}

/// Arrivals.
#[derive(Clone, Debug)]
pub struct Open {
    /// Where they come from.
    pub timing: Timing,
    /// Sessions in flight at most; none = only the hard bound.
    pub max_in_flight: Option<u64>,
    /// What becomes of an arrival above the bound.
    pub when_full: WhenFull,
    /// Stop after this many.
    pub max_arrivals: Option<u64>,
}

/// Where arrivals come from.
#[derive(Clone, Debug)]
pub enum Timing {
    /// A rate over time.
    Rate(Arrivals, Vec<Stage<Shape>>),
    /// A list.
    Times(Arc<Times>),
}

impl Timing {
    /// Length of the schedule.
    pub fn duration_us(&self) -> u64 {
        match self {
            Self::Rate(_, stages) => stages.iter().map(|s| s.duration_us).sum(),
            Self::Times(times) => times.duration_us,
        }
    }
}

/// How arrivals fall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Evenly, as the rate says.
    Uniform,
    /// A Poisson process of that rate.
    Poisson,
    /// In each stage as many as uniform ones, each at random.
    Scattered,
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
    /// Lognormal with this median and 95th percentile.
    Lognormal(u64, u64),
}
