use super::*;
use proptest::prelude::*;

fn stage(from: f64, to: f64, duration_us: u64) -> Stage<Line> {
    Stage { name: None, shape: Line { from, to }, duration_us }
}

fn population(stages: &[Stage<Line>]) -> Population {
    Population::of(stages, 0)
}

#[test]
fn a_ramp_starts_one_user_after_another() {
    let population = population(&[stage(0.0, 50.0, 10_000_000), stage(50.0, 50.0, 5_000_000)]);
    assert_eq!(population.users(), 50);
    assert_eq!(population.intervals(0), [(0, 15_000_000_000)]);
    assert_eq!(population.intervals(49), [(9_800_000_000, 15_000_000_000)]);
    assert_eq!(population.intervals(50), []);
}

#[test]
fn a_user_comes_back_in_a_second_wave() {
    let wave = [stage(0.0, 2.0, 1_000_000), stage(2.0, 0.0, 1_000_000)];
    let population = population(&[wave.clone(), wave].concat());
    assert_eq!(population.intervals(1), [(500_000_000, 1_500_000_000), (2_500_000_000, 3_500_000_000)]);
}

#[test]
fn users_of_one_instant_are_spread() {
    // 4 at once, a ramp to 6, and 4 more at once.
    let stages = [stage(4.0, 4.0, 1_000_000), stage(4.0, 6.0, 1_000_000), stage(10.0, 10.0, 1_000_000)];
    let population = Population::of(&stages, 400_000_000);
    let begins: Vec<_> = (0..10).map(|user| population.intervals(user)[0].0 / 1_000_000).collect();
    assert_eq!(begins, [0, 100, 200, 300, 1000, 1500, 2000, 2100, 2200, 2300]);
    assert!((0..10).all(|user| population.intervals(user).len() == 1));
}

#[test]
fn a_spread_counts_only_those_that_come() {
    // Users 0 to 2 are active until the very end of the way down from 5 to 2; 3 and 4 come back together.
    let stages = [stage(5.0, 2.0, 3_000_000), stage(5.0, 5.0, 1_000_000)];
    let population = Population::of(&stages, 100_000_000);
    assert_eq!(population.intervals(2), [(40_000_000, 4_000_000_000)]);
    assert_eq!(population.intervals(3), [(60_000_000, 2_000_000_000), (3_000_000_000, 4_000_000_000)]);
    assert_eq!(population.intervals(4), [(80_000_000, 1_000_000_000), (3_050_000_000, 4_000_000_000)]);
}

#[test]
fn who_would_come_too_late_does_not_come() {
    let stages = [stage(4.0, 4.0, 100_000), stage(1.0, 1.0, 900_000)];
    let population = Population::of(&stages, 400_000_000);
    assert_eq!(population.intervals(0), [(0, 1_000_000_000)]);
    assert!((1..4).all(|user| population.intervals(user).is_empty()));
    // The first wave is too short for the last user, the second keeps it on.
    let stages = [stage(2.0, 2.0, 100_000), stage(2.0, 2.0, 900_000)];
    assert_eq!(Population::of(&stages, 400_000_000).intervals(1), [(200_000_000, 1_000_000_000)]);
}

proptest! {
    #[test]
    fn intervals_agree_with_the_level(
        stages in prop::collection::vec((0_u32..40, 0_u32..40, 1_u64..5_000_000), 1..6),
        at in 0.0..1.0_f64,
    ) {
        let stages: Vec<_> = stages.iter().map(|(a, b, d)| stage(f64::from(*a), f64::from(*b), *d)).collect();
        let population = population(&stages);
        let t = (at * population.end_ns() as f64) as u64;
        let on = |k| population.intervals(k).iter().any(|(on, off)| (*on..*off).contains(&t));
        let active = (0..population.users()).filter(|k| on(*k)).count() as u64;
        let segment = population.segments.iter().find(|s| s.end_ns > t).expect("before the end");
        let flat = (segment.line.to - segment.line.from).abs() < f64::EPSILON;
        // Within a ns of a crossing the rounding of the crossing decides.
        let level = segment.level(t);
        prop_assume!((level - level.round()).abs() > 1e-6 || flat);
        prop_assert_eq!(active, population.active(t));
    }

    /// Whatever the spread, who comes is never later than it, and leaves when it would have left.
    #[test]
    fn a_spread_only_delays(
        stages in prop::collection::vec((0_u32..20, 0_u32..20, 1_u64..2_000_000), 1..6),
        spread_us in 0_u64..1_000_000,
    ) {
        let stages: Vec<_> = stages.iter().map(|(a, b, d)| stage(f64::from(*a), f64::from(*b), *d)).collect();
        let (plain, spread) = (population(&stages), Population::of(&stages, spread_us * 1000));
        for user in 0..plain.users() {
            let whole = plain.intervals(user);
            for (on, off) in spread.intervals(user) {
                let near = whole.iter().any(|(a, b)| *a <= on && on - a < spread_us.max(1) * 1000 && *b == off);
                prop_assert!(near, "{:?} is not within {:?}", (on, off), whole);
            }
        }
    }
}
