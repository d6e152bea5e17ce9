//! Open load: when each arrival is due.
use super::Curve;
use super::curve::slack;
use super::scattered::{ScatteredStage, expected_scattered};
use super::sequence::Sequence;
use crate::job::{self, Arrivals, Open, Times};
use std::sync::Arc;

/// Apart from the arrivals of other workloads with the same seed.
const POISSON_STREAM: u64 = 0x706f_6973_736f_6e00;
const SCATTERED_STREAM: u64 = 0x7363_6174_7465_7200;

/// One arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its number in the whole workload.
    pub index: u64,
    /// When it is due, in ns from the start.
    pub offset_ns: u64,
}

/// The arrivals of a workload.
///
/// Uniform: arrival k (from 0) is due when the integrated rate Λ goes beyond k, so ⌈Λ(t)⌉ are due before t. Poisson: when Λ
/// reaches the k-th point of a unit-rate process (time rescaling), which is exact for any rate curve. Scattered: every
/// stage has as many as uniform arrivals give it, the order statistics of as many draws from its part of the curve.
#[derive(Clone, Debug)]
pub struct ArrivalPlan {
    pub(super) source: Source,
    pub(super) seed: [u64; 3],
    pub(super) limit: u64,
}

/// Where the offsets come from.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Rate(Arrivals, Curve),
    Times(Arc<Times>),
}

impl ArrivalPlan {
    /// `workload` sets this plan apart from others of the same seed.
    pub fn new(open: &Open, seed: u64, workload: u64) -> Self {
        let source = match &open.timing {
            job::Timing::Rate(kind, stages) => Source::Rate(*kind, Curve::new(stages)),
            job::Timing::Times(times) => Source::Times(Arc::clone(times)),
        };
        let stream = match source {
            Source::Rate(Arrivals::Scattered, _) => SCATTERED_STREAM,
            _ => POISSON_STREAM,
        };
        Self { source, seed: [stream, seed, workload], limit: open.max_arrivals.unwrap_or(u64::MAX) }
    }

    /// End of the schedule.
    pub fn end_ns(&self) -> u64 {
        match &self.source {
            Source::Rate(_, curve) => curve.end_ns(),
            Source::Times(times) => times.duration_us * 1000,
        }
    }

    /// Expected number of arrivals before `t_ns`, in closed form (without a bound on their number): for uniform arrivals
    /// within one of the number itself, for those of a file the number itself.
    pub fn expected_count(&self, t_ns: u64) -> f64 {
        match &self.source {
            Source::Rate(Arrivals::Scattered, curve) => expected_scattered(curve, t_ns),
            Source::Rate(_, curve) => curve.integral(t_ns),
            Source::Times(times) => times.offsets_ns.partition_point(|at| *at < t_ns) as f64,
        }
    }

    /// Arrivals of the whole schedule: the mean for a Poisson process, exact otherwise.
    pub fn expected_total(&self) -> u64 {
        let total = match &self.source {
            Source::Rate(Arrivals::Poisson, curve) => curve.total().round() as u64,
            Source::Rate(_, curve) => due_count(curve.total()),
            Source::Times(times) => times.offsets_ns.len() as u64,
        };
        total.min(self.limit)
    }

    /// Arrivals that are due before `t_ns`, exactly. In closed form for uniform arrivals; those of a file are looked up; those that
    /// depend on draws are drawn, scattered ones only within the stage around `t_ns`.
    pub fn count_before(&self, t_ns: u64) -> u64 {
        let count = match &self.source {
            Source::Rate(Arrivals::Uniform, curve) => uniform_before(curve, t_ns),
            Source::Times(times) => times.offsets_ns.partition_point(|at| *at < t_ns) as u64,
            Source::Rate(Arrivals::Scattered, curve) => match curve.place(t_ns) {
                Some((index, segment)) => {
                    let draws = ScatteredStage::new(segment, index, self.seed);
                    draws.first + draws.take_while(|at| *at < t_ns).count() as u64
                }
                None => due_count(curve.total()),
            },
            Source::Rate(Arrivals::Poisson, _) => {
                Sequence::new(self).take_while(|a| a.offset_ns < t_ns).count() as u64
            }
        };
        count.min(self.limit)
    }

    /// The arrivals of one thread: those whose number modulo `threads` is `thread`.
    pub fn shard(&self, thread: u64, threads: u64) -> Shard {
        Shard { sequence: Sequence::new(self), thread, threads: threads.max(1) }
    }
}

/// ⌈area⌉, forgiving the last digits of a sum of products: 3 s at 20/s are 60 arrivals and not 61.
pub(super) fn due_count(area: f64) -> u64 {
    (area - slack(area)).ceil().max(0.0) as u64
}

/// Offset of a uniform arrival.
pub(super) fn uniform_offset(curve: &Curve, index: u64) -> u64 {
    curve.inverse(index as f64).min(curve.end_ns().saturating_sub(1))
}

/// Offsets are whole ns, so the count is set right where rounding moved an arrival across `t_ns`.
fn uniform_before(curve: &Curve, t_ns: u64) -> u64 {
    let total = due_count(curve.total());
    let mut count = due_count(curve.integral(t_ns)).min(total);
    while count > 0 && uniform_offset(curve, count - 1) >= t_ns {
        count -= 1;
    }
    while count < total && uniform_offset(curve, count) < t_ns {
        count += 1;
    }
    count
}

/// The arrivals of one thread. It walks through all of them (some ns each), so that the global schedule is the same
/// for every number of threads.
pub struct Shard {
    sequence: Sequence,
    thread: u64,
    threads: u64,
}

impl Iterator for Shard {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        loop {
            let arrival = self.sequence.next()?;
            if arrival.index % self.threads == self.thread {
                return Some(arrival);
            }
        }
    }
}

#[cfg(test)]
#[path = "arrivals_tests.rs"]
mod tests;
