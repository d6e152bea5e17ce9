//! All arrivals of a workload in their order.
use super::Curve;
use super::arrivals::{Arrival, ArrivalPlan, Source, due_count};
use super::scattered::ScatteredStage;
use crate::job::Arrivals;
use crate::rng::Rng;

/// They are made as they are asked for; none is kept.
pub struct Sequence {
    plan: ArrivalPlan,
    state: State,
    index: u64,
    last_ns: u64,
}

/// Where the next one comes from.
enum State {
    /// Looking from this segment on.
    Uniform(usize),
    Poisson {
        segment: usize,
        area: f64,
        rng: Rng,
    },
    /// The stage, and its draws.
    Scattered(usize, Option<ScatteredStage>),
    Times,
}

impl Sequence {
    pub fn new(plan: &ArrivalPlan) -> Self {
        let state = match &plan.source {
            Source::Times(_) => State::Times,
            Source::Rate(Arrivals::Uniform, _) => State::Uniform(0),
            Source::Rate(Arrivals::Poisson, _) => {
                State::Poisson { segment: 0, area: 0.0, rng: Rng::from_parts(&plan.seed) }
            }
            Source::Rate(Arrivals::Scattered, _) => State::Scattered(0, None),
        };
        Self { plan: plan.clone(), state, index: 0, last_ns: 0 }
    }

    fn offset_ns(&mut self) -> Option<u64> {
        let curve = match &self.plan.source {
            Source::Times(times) => return times.offsets_ns.get(self.index as usize).copied(),
            Source::Rate(_, curve) => curve,
        };
        match &mut self.state {
            State::Uniform(segment) => (self.index < due_count(curve.total()))
                .then(|| curve.inverse_from(segment, self.index as f64)),
            State::Poisson { segment, area, rng } => {
                *area += rng.exponential();
                (*area < curve.total()).then(|| curve.inverse_from(segment, *area))
            }
            State::Scattered(stage, draws) => next_scattered(curve, self.plan.seed, stage, draws),
            State::Times => None,
        }
    }
}

fn next_scattered(
    curve: &Curve,
    seed: [u64; 3],
    stage: &mut usize,
    draws: &mut Option<ScatteredStage>,
) -> Option<u64> {
    loop {
        if let Some(offset_ns) = draws.as_mut().and_then(Iterator::next) {
            return Some(offset_ns);
        }
        let segment = curve.segments().get(*stage)?;
        *draws = Some(ScatteredStage::new(segment, *stage, seed));
        *stage += 1;
    }
}

impl Iterator for Sequence {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        if self.index >= self.plan.limit {
            return None;
        }
        let Some(offset_ns) = self.offset_ns() else {
            self.plan.limit = 0;
            return None;
        };
        let last_possible = self.plan.end_ns().saturating_sub(1);
        self.last_ns = offset_ns.max(self.last_ns).min(last_possible);
        let arrival = Arrival { index: self.index, offset_ns: self.last_ns };
        self.index += 1;
        Some(arrival)
    }
}
