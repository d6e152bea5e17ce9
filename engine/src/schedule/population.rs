//! Closed load: when each virtual user is active.
use super::Curve;
use crate::job::Stage;

/// A population over time: user k (from 0) is active while the level is above k, so ⌈level⌉ are active.
#[derive(Clone, Debug)]
pub struct Population {
    curve: Curve,
}

impl Population {
    /// From the stages of a job.
    pub fn new(stages: &[Stage]) -> Self {
        Self { curve: Curve::new(stages) }
    }

    /// End of the schedule.
    pub fn end_ns(&self) -> u64 {
        self.curve.end_ns()
    }

    /// Users that are ever active.
    pub fn users(&self) -> u64 {
        self.curve.segments().iter().map(|s| s.from.max(s.to)).fold(0.0, f64::max).ceil() as u64
    }

    /// Users active at `t_ns`, in closed form.
    pub fn active(&self, t_ns: u64) -> u64 {
        (self.curve.level(t_ns) - 1e-9).ceil().max(0.0) as u64
    }

    /// When user `k` is active: disjoint intervals [on, off) in their order.
    pub fn intervals(&self, user: u64) -> Vec<(u64, u64)> {
        let level = user as f64;
        let mut intervals: Vec<(u64, u64)> = Vec::new();
        for s in self.curve.segments() {
            let (on, off) = match (s.from > level, s.to > level) {
                (true, true) => (s.start_ns, s.end_ns),
                (false, true) => (s.crossing_ns(level), s.end_ns),
                (true, false) => (s.start_ns, s.crossing_ns(level)),
                (false, false) => continue,
            };
            match intervals.last_mut() {
                Some(last) if last.1 == on => last.1 = off,
                _ if on < off => intervals.push((on, off)),
                _ => {}
            }
        }
        intervals
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stage(from: f64, to: f64, duration_us: u64) -> Stage {
        Stage { name: None, from, to, duration_us }
    }

    #[test]
    fn a_ramp_starts_one_user_after_another() {
        let population = Population::new(&[stage(0.0, 50.0, 10_000_000), stage(50.0, 50.0, 5_000_000)]);
        assert_eq!(population.users(), 50);
        assert_eq!(population.intervals(0), [(0, 15_000_000_000)]);
        assert_eq!(population.intervals(49), [(9_800_000_000, 15_000_000_000)]);
        assert_eq!(population.intervals(50), []);
    }

    #[test]
    fn a_user_comes_back_in_a_second_wave() {
        let wave = [stage(0.0, 2.0, 1_000_000), stage(2.0, 0.0, 1_000_000)];
        let population = Population::new(&[wave.clone(), wave].concat());
        assert_eq!(population.intervals(1), [(500_000_000, 1_500_000_000), (2_500_000_000, 3_500_000_000)]);
    }

    proptest! {
        #[test]
        fn intervals_agree_with_the_level(
            stages in prop::collection::vec((0_u32..40, 0_u32..40, 1_u64..5_000_000), 1..6),
            at in 0.0..1.0_f64,
        ) {
            let stages: Vec<_> = stages.iter().map(|(a, b, d)| stage(f64::from(*a), f64::from(*b), *d)).collect();
            let population = Population::new(&stages);
            let t = (at * population.end_ns() as f64) as u64;
            let on = |k| population.intervals(k).iter().any(|(on, off)| (*on..*off).contains(&t));
            let active = (0..population.users()).filter(|k| on(*k)).count() as u64;
            // Within a ns of a crossing the rounding of the crossing decides.
            let level = population.curve.level(t);
            prop_assume!((level - level.round()).abs() > 1e-6 || population.curve.is_flat(t));
            prop_assert_eq!(active, population.active(t));
        }
    }
}
