//! Closed load: when each virtual user is active.
use crate::job::{Closed, Line, Stage};

/// A population over time: user k (from 0) is active while the level is above k, so ⌈level⌉ are active.
#[derive(Clone, Debug)]
pub struct Population {
    segments: Vec<Segment>,
    spread_ns: u64,
}

/// One stage.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start_ns: u64,
    end_ns: u64,
    line: Line,
}

impl Segment {
    fn share(&self, t_ns: u64) -> f64 {
        (t_ns - self.start_ns) as f64 / (self.end_ns - self.start_ns) as f64
    }

    fn level(&self, t_ns: u64) -> f64 {
        self.line.from + (self.line.to - self.line.from) * self.share(t_ns)
    }

    /// Offset at which the level is `level`; only for a level between both ends.
    fn crossing_ns(&self, level: f64) -> u64 {
        let share = ((level - self.line.from) / (self.line.to - self.line.from)).clamp(0.0, 1.0);
        self.start_ns + (share * (self.end_ns - self.start_ns) as f64).round() as u64
    }

    /// The first user that is not active right before the end.
    fn first_idle(&self) -> u64 {
        let Line { from, to } = self.line;
        // On the way down, the user whose number is the last level is active until the very end.
        if from > to { to.floor() as u64 + 1 } else { to.ceil() as u64 }
    }
}

impl Population {
    /// Of a job.
    pub fn new(closed: &Closed) -> Self {
        Self::of(&closed.stages, closed.start_spread_us * 1000)
    }

    fn of(stages: &[Stage<Line>], spread_ns: u64) -> Self {
        let mut start_ns = 0;
        let segment = |stage: &Stage<Line>| {
            let end_ns = start_ns + stage.duration_us * 1000;
            let segment = Segment { start_ns, end_ns, line: stage.shape };
            start_ns = end_ns;
            segment
        };
        let segments = stages.iter().filter(|s| s.duration_us > 0).map(segment).collect();
        Self { segments, spread_ns }
    }

    /// End of the schedule.
    pub fn end_ns(&self) -> u64 {
        self.segments.last().map_or(0, |s| s.end_ns)
    }

    /// Users that are ever active.
    pub fn users(&self) -> u64 {
        self.segments.iter().map(|s| s.line.from.max(s.line.to)).fold(0.0, f64::max).ceil() as u64
    }

    /// Users active at `t_ns`, in closed form; those that are still being spread count as active.
    pub fn active(&self, t_ns: u64) -> u64 {
        let index = self.segments.partition_point(|s| s.end_ns <= t_ns);
        let level = self.segments.get(index).map_or(0.0, |s| s.level(t_ns));
        (level - 1e-9).ceil().max(0.0) as u64
    }

    /// When user `k` is active: disjoint intervals [on, off) in their order.
    pub fn intervals(&self, user: u64) -> Vec<(u64, u64)> {
        let level = user as f64;
        let mut intervals: Vec<(u64, u64)> = Vec::new();
        for (index, s) in self.segments.iter().enumerate() {
            let (on, off) = match (s.line.from > level, s.line.to > level) {
                (true, true) => (s.start_ns, s.end_ns),
                (false, true) => (s.crossing_ns(level), s.end_ns),
                (true, false) => (s.start_ns, s.crossing_ns(level)),
                (false, false) => continue,
            };
            match intervals.last_mut() {
                Some(last) if last.1 == on => last.1 = off,
                // Who has to wait longer than it would be active does not come at all.
                _ => intervals.push((on + self.delay_ns(index, user, on), off)),
            }
        }
        intervals.retain(|(on, off)| on < off);
        intervals
    }

    /// Where the level jumps, n users become active at once: the i-th of them after i/n of the spread.
    fn delay_ns(&self, index: usize, user: u64, on_ns: u64) -> u64 {
        let segment = self.segments[index];
        if self.spread_ns == 0 || on_ns != segment.start_ns || segment.line.from <= user as f64 {
            return 0;
        }
        let first = index.checked_sub(1).map_or(0, |before| self.segments[before].first_idle());
        let together = (segment.line.from.ceil() as u64).saturating_sub(first).max(1);
        let place = user.saturating_sub(first);
        (u128::from(self.spread_ns) * u128::from(place) / u128::from(together)) as u64
    }
}

#[cfg(test)]
#[path = "population_tests.rs"]
mod tests;
