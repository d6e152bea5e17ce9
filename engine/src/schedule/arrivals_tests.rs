use super::*;
use crate::job::{Arrivals, Stage, WhenFull};
use proptest::prelude::*;

fn plan(kind: Arrivals, stages: &[(f64, f64, u64)]) -> ArrivalPlan {
    let stage = |(from, to, duration_us): &(f64, f64, u64)| Stage {
        name: None,
        from: *from,
        to: *to,
        duration_us: *duration_us,
    };
    let stages = stages.iter().map(stage).collect();
    let open =
        Open { arrivals: kind, stages, max_in_flight: None, when_full: WhenFull::Queue, max_arrivals: None };
    ArrivalPlan::new(&open, 7, 0)
}

fn all(plan: &ArrivalPlan) -> Vec<Arrival> {
    plan.shard(0, 1).collect()
}

#[test]
fn a_plateau_has_equal_gaps() {
    let arrivals = all(&plan(Arrivals::Uniform, &[(20.0, 20.0, 3_000_000)]));
    assert_eq!(arrivals.len(), 60);
    assert!(arrivals.iter().enumerate().all(|(k, a)| a.offset_ns == k as u64 * 50_000_000));
}

#[test]
fn a_ramp_follows_the_integral() {
    // Λ(t) = 10 t² over 2 s: 40 arrivals, the k-th at √(k/10) s.
    let arrivals = all(&plan(Arrivals::Uniform, &[(0.0, 40.0, 2_000_000)]));
    assert_eq!(arrivals.len(), 40);
    for a in arrivals {
        assert!((a.offset_ns as f64 - (a.index as f64 / 10.0).sqrt() * 1e9).abs() < 2.0, "{a:?}");
    }
}

#[test]
fn nothing_is_due_where_the_rate_is_zero() {
    let stages = [(10.0, 10.0, 1_000_000), (0.0, 0.0, 5_000_000), (10.0, 10.0, 1_000_000)];
    for kind in [Arrivals::Uniform, Arrivals::Poisson] {
        let arrivals = all(&plan(kind, &stages));
        assert!(arrivals.iter().all(|a| a.offset_ns <= 1_000_000_000 || a.offset_ns >= 6_000_000_000));
    }
}

#[test]
fn a_bound_on_the_number_holds() {
    let mut plan = plan(Arrivals::Uniform, &[(100.0, 100.0, 1_000_000)]);
    plan.limit = 42;
    assert_eq!((all(&plan).len(), plan.expected_total(), plan.count_before(1_000_000_000)), (42, 42, 42));
}

/// Kolmogorov-Smirnov distance of rescaled gaps from the unit exponential; 1.63/√n is the 1 % point.
#[test]
fn poisson_gaps_are_exponential_after_rescaling() {
    let plan = plan(Arrivals::Poisson, &[(1000.0, 5000.0, 10_000_000), (5000.0, 200.0, 10_000_000)]);
    let arrivals = all(&plan);
    let areas: Vec<_> = arrivals.iter().map(|a| plan.expected_count(a.offset_ns)).collect();
    let mut gaps: Vec<_> = areas.windows(2).map(|w| w[1] - w[0]).collect();
    gaps.sort_by(f64::total_cmp);
    let n = gaps.len() as f64;
    let distance = gaps
        .iter()
        .enumerate()
        .map(|(i, x)| {
            let model = 1.0 - (-x).exp();
            (model - i as f64 / n).abs().max((model - (i + 1) as f64 / n).abs())
        })
        .fold(0.0, f64::max);
    assert!(distance < 1.63 / n.sqrt(), "KS distance {distance} over {n} gaps");
    // The count itself is Poisson: within 4.5 standard deviations of its mean.
    let mean = plan.curve().total();
    assert!((arrivals.len() as f64 - mean).abs() < 4.5 * mean.sqrt());
}

#[test]
fn seeds_reproduce_and_differ() {
    let one = plan(Arrivals::Poisson, &[(500.0, 500.0, 2_000_000)]);
    let mut other = one.clone();
    assert_eq!(all(&one), all(&other));
    other.seed[2] = 1;
    assert_ne!(all(&one), all(&other));
}

fn any_stages() -> impl Strategy<Value = Vec<(f64, f64, u64)>> {
    let level = prop_oneof![Just(0.0), 0.0..300.0_f64, (0_u32..300).prop_map(f64::from)];
    prop::collection::vec((level.clone(), level, 1_u64..3_000_000), 1..6)
}

proptest! {
    #[test]
    fn counts_are_exact_and_offsets_monotone(stages in any_stages(), at in 0.0..1.1_f64) {
        let plan = plan(Arrivals::Uniform, &stages);
        let arrivals = all(&plan);
        prop_assert_eq!(arrivals.len() as u64, plan.expected_total());
        prop_assert!(arrivals.windows(2).all(|w| w[0].offset_ns <= w[1].offset_ns));
        prop_assert!(arrivals.iter().all(|a| a.offset_ns < plan.curve().end_ns()));
        let t = (at * plan.curve().end_ns() as f64) as u64;
        let due = arrivals.iter().filter(|a| a.offset_ns < t).count() as u64;
        prop_assert_eq!(due, plan.count_before(t));
        prop_assert!((due as f64 - plan.expected_count(t)).abs() <= 1.0 + 1e-6);
    }

    #[test]
    fn the_inverse_is_right(stages in any_stages(), share in 0.001..0.999_f64) {
        let plan = plan(Arrivals::Uniform, &stages);
        let area = share * plan.curve().total();
        prop_assume!(area > 1e-3);
        let t = plan.curve().inverse(area);
        // A ns at the highest rate is 3e-7 arrivals.
        prop_assert!(plan.curve().integral(t + 1) >= area - 1e-6);
        prop_assert!(plan.curve().integral(t.saturating_sub(1)) <= area + 1e-6);
    }

    #[test]
    fn shards_are_a_partition(stages in any_stages(), threads in 1_u64..6, poisson in any::<bool>()) {
        let plan = plan(if poisson { Arrivals::Poisson } else { Arrivals::Uniform }, &stages);
        let mut together: Vec<_> = (0..threads).flat_map(|i| plan.shard(i, threads)).collect();
        together.sort_by_key(|a| a.index);
        prop_assert_eq!(together, all(&plan));
    }
}
