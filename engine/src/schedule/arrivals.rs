//! Open load: when each arrival is due.
use super::Curve;
use crate::job::{self, Open};
use crate::rng::Rng;

/// Apart from the arrivals of other workloads with the same seed.
const POISSON_STREAM: u64 = 0x706f_6973_736f_6e00;

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
/// Uniform: arrival k (from 0) is due when the integrated rate Λ reaches k, so ⌈Λ(t)⌉ are due before t. Poisson: when Λ
/// reaches the k-th point of a unit-rate process (time rescaling), which is exact for any rate curve.
#[derive(Clone, Debug)]
pub struct ArrivalPlan {
    curve: Curve,
    kind: job::Arrivals,
    seed: [u64; 3],
    limit: u64,
}

impl ArrivalPlan {
    /// `workload` sets this plan apart from others of the same seed.
    pub fn new(open: &Open, seed: u64, workload: u64) -> Self {
        Self {
            curve: Curve::new(&open.stages),
            kind: open.arrivals,
            seed: [POISSON_STREAM, seed, workload],
            limit: open.max_arrivals.unwrap_or(u64::MAX),
        }
    }

    /// The rate over time.
    pub fn curve(&self) -> &Curve {
        &self.curve
    }

    /// Expected number of arrivals before `t_ns`, in closed form (without a bound on their number).
    pub fn expected_count(&self, t_ns: u64) -> f64 {
        self.curve.integral(t_ns)
    }

    /// Arrivals of the whole schedule: exact for uniform ones, the mean for a Poisson process.
    pub fn expected_total(&self) -> u64 {
        let total = match self.kind {
            job::Arrivals::Uniform => due_count(self.curve.total()),
            job::Arrivals::Poisson => self.curve.total().round() as u64,
        };
        total.min(self.limit)
    }

    /// Uniform arrivals that are due before `t_ns`, exactly and in closed form.
    ///
    /// Offsets are whole ns, so the count is set right where rounding moved an arrival across `t_ns`.
    pub fn count_before(&self, t_ns: u64) -> u64 {
        let end = self.curve.end_ns();
        let total = due_count(self.curve.total());
        let mut count = due_count(self.curve.integral(t_ns.min(end))).min(total);
        while count > 0 && self.uniform_offset(count - 1) >= t_ns {
            count -= 1;
        }
        while count < total && self.uniform_offset(count) < t_ns {
            count += 1;
        }
        count.min(self.limit)
    }

    fn uniform_offset(&self, index: u64) -> u64 {
        self.curve.inverse(index as f64).min(self.curve.end_ns().saturating_sub(1))
    }

    /// The arrivals of one thread: those whose number modulo `threads` is `thread`.
    pub fn shard(&self, thread: u64, threads: u64) -> Shard {
        Shard {
            sequence: Sequence {
                rng: Rng::from_parts(&self.seed),
                plan: self.clone(),
                index: 0,
                area: 0.0,
                segment: 0,
                last_ns: 0,
            },
            thread,
            threads: threads.max(1),
        }
    }
}

/// ⌈area⌉, forgiving the last digits of a sum of products: 3 s at 20/s are 60 arrivals and not 61.
fn due_count(area: f64) -> u64 {
    (area - 1e-9 - area * 1e-12).ceil().max(0.0) as u64
}

/// All arrivals in their order.
struct Sequence {
    plan: ArrivalPlan,
    rng: Rng,
    index: u64,
    area: f64,
    segment: usize,
    last_ns: u64,
}

impl Iterator for Sequence {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        if self.index >= self.plan.limit {
            return None;
        }
        match self.plan.kind {
            job::Arrivals::Uniform => {
                self.area = self.index as f64;
                if self.index >= due_count(self.plan.curve.total()) {
                    return None;
                }
            }
            job::Arrivals::Poisson => {
                self.area += self.rng.exponential();
                if self.area >= self.plan.curve.total() {
                    self.index = u64::MAX;
                    return None;
                }
            }
        }
        let due_ns = self.plan.curve.inverse_from(&mut self.segment, self.area);
        let last_possible = self.plan.curve.end_ns().saturating_sub(1);
        self.last_ns = due_ns.max(self.last_ns).min(last_possible);
        let arrival = Arrival { index: self.index, offset_ns: self.last_ns };
        self.index += 1;
        Some(arrival)
    }
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
