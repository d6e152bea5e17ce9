use super::*;
use crate::job::{Line, Shape, Sine, Stage, WhenFull};
use proptest::prelude::*;

const KINDS: [Arrivals; 3] = [Arrivals::Uniform, Arrivals::Poisson, Arrivals::Scattered];

type Piece = (Shape, u64);

fn line(from: f64, to: f64, duration_us: u64) -> Piece {
    (Shape::Line(Line { from, to }), duration_us)
}

fn sine(mean: f64, amplitude: f64, period_us: u64, phase: f64, duration_us: u64) -> Piece {
    (Shape::Sine(Sine { mean, amplitude, period_us, phase }), duration_us)
}

fn of_timing(timing: job::Timing) -> ArrivalPlan {
    let open = Open { timing, max_in_flight: None, when_full: WhenFull::Queue, max_arrivals: None };
    ArrivalPlan::new(&open, 7, 0)
}

fn plan(kind: Arrivals, pieces: &[Piece]) -> ArrivalPlan {
    let stage = |(shape, duration_us): &Piece| Stage { name: None, shape: *shape, duration_us: *duration_us };
    of_timing(job::Timing::Rate(kind, pieces.iter().map(stage).collect()))
}

fn listed(offsets_ns: Vec<u64>, duration_us: u64) -> ArrivalPlan {
    of_timing(job::Timing::Times(Arc::new(Times { file: "list".into(), offsets_ns, duration_us })))
}

fn curve(plan: &ArrivalPlan) -> &Curve {
    match &plan.source {
        Source::Rate(_, curve) => curve,
        Source::Times(_) => panic!("a list has no curve"),
    }
}

fn all(plan: &ArrivalPlan) -> Vec<Arrival> {
    plan.shard(0, 1).collect()
}

/// Largest distance between the distribution of sorted values and a model of it.
fn ks_distance(sorted: &[f64], model: impl Fn(f64) -> f64) -> f64 {
    let n = sorted.len() as f64;
    let distance = |(i, x): (usize, &f64)| {
        let model = model(*x);
        (model - i as f64 / n).abs().max((model - (i + 1) as f64 / n).abs())
    };
    sorted.iter().enumerate().map(distance).fold(0.0, f64::max)
}

#[test]
fn a_plateau_has_equal_gaps() {
    let arrivals = all(&plan(Arrivals::Uniform, &[line(20.0, 20.0, 3_000_000)]));
    assert_eq!(arrivals.len(), 60);
    assert!(arrivals.iter().enumerate().all(|(k, a)| a.offset_ns == k as u64 * 50_000_000));
}

#[test]
fn a_ramp_follows_the_integral() {
    // Λ(t) = 10 t² over 2 s: 40 arrivals, the k-th at √(k/10) s.
    let arrivals = all(&plan(Arrivals::Uniform, &[line(0.0, 40.0, 2_000_000)]));
    assert_eq!(arrivals.len(), 40);
    for a in arrivals {
        assert!((a.offset_ns as f64 - (a.index as f64 / 10.0).sqrt() * 1e9).abs() < 2.0, "{a:?}");
    }
}

#[test]
fn a_wave_has_its_crests_where_it_should() {
    // 100 ± 100/s with a period of 4 s: 400 a wave, 200 + 400/π of them in its first half.
    let wave = plan(Arrivals::Uniform, &[sine(100.0, 100.0, 4_000_000, 0.0, 12_000_000)]);
    assert_eq!((wave.expected_total(), wave.count_before(4_000_000_000)), (1200, 400));
    assert_eq!(wave.count_before(2_000_000_000), (200.0 + 400.0 / std::f64::consts::PI).ceil() as u64);
    // A quarter of a turn later it begins at its crest.
    let crest = plan(Arrivals::Uniform, &[sine(100.0, 100.0, 4_000_000, 0.25, 4_000_000)]);
    assert!((curve(&crest).level(0) - 200.0).abs() < 1e-9);
    assert_eq!(crest.count_before(1_000_000_000), (100.0 + 200.0 / std::f64::consts::PI).ceil() as u64);
    // Where the rate is 0 for an instant, arrivals are far apart, and their order holds.
    assert!(all(&crest).windows(2).all(|w| w[0].offset_ns < w[1].offset_ns));
}

#[test]
fn nothing_is_due_where_the_rate_is_zero() {
    let pieces = [line(10.0, 10.0, 1_000_000), line(0.0, 0.0, 5_000_000), line(10.0, 10.0, 1_000_000)];
    for kind in KINDS {
        let arrivals = all(&plan(kind, &pieces));
        let outside = |a: &Arrival| a.offset_ns < 1_000_000_000 || a.offset_ns >= 6_000_000_000;
        assert!(arrivals.iter().all(outside), "{kind:?}");
    }
    // The first after the gap is due when the rate comes back, not when it went away.
    let uniform = plan(Arrivals::Uniform, &pieces);
    assert_eq!((uniform.count_before(5_999_999_999), uniform.count_before(6_000_000_001)), (10, 11));
}

/// Counts a minute, such as those of Azure's trace, come out as they are, whatever the digits of count ÷ 60.
#[test]
fn a_count_in_each_minute_is_kept_in_each_minute() {
    let counts = [7_u64, 0, 1, 113, 0, 0, 13, 59, 61, 3];
    let minute = |n: &u64| line(*n as f64 / 60.0, *n as f64 / 60.0, 60_000_000);
    let pieces: Vec<_> = counts.iter().map(minute).collect();
    for kind in [Arrivals::Uniform, Arrivals::Scattered] {
        let mut seen = [0; 10];
        for arrival in all(&plan(kind, &pieces)) {
            seen[(arrival.offset_ns / 60_000_000_000) as usize] += 1;
        }
        assert_eq!(seen, counts, "{kind:?}");
    }
}

#[test]
fn a_bound_on_the_number_holds() {
    for kind in KINDS {
        let mut plan = plan(kind, &[line(100.0, 100.0, 1_000_000)]);
        plan.limit = 42;
        assert_eq!((all(&plan).len(), plan.expected_total(), plan.count_before(1_000_000_000)), (42, 42, 42));
    }
    let mut plan = listed((0..100).collect(), 1000);
    plan.limit = 42;
    assert_eq!((all(&plan).len(), plan.expected_total(), plan.count_before(1000)), (42, 42, 42));
}

#[test]
fn a_list_is_kept_as_it_is() {
    let offsets = [0, 5, 5, 5, 1_000_000, 2_999_999_999];
    let plan = listed(offsets.to_vec(), 3_000_000);
    assert_eq!(all(&plan).iter().map(|a| a.offset_ns).collect::<Vec<_>>(), offsets);
    assert_eq!((plan.end_ns(), plan.expected_total()), (3_000_000_000, 6));
    assert_eq!([0, 1, 5, 6, 3_000_000_000].map(|t| plan.count_before(t)), [0, 1, 1, 4, 6]);
}

/// Kolmogorov-Smirnov distance of rescaled gaps from the unit exponential; 1.63/√n is the 1 % point.
#[test]
fn poisson_gaps_are_exponential_after_rescaling() {
    let pieces = [
        line(1000.0, 5000.0, 10_000_000),
        line(5000.0, 200.0, 10_000_000),
        sine(3000.0, 2900.0, 3_000_000, 0.1, 10_000_000),
    ];
    let plan = plan(Arrivals::Poisson, &pieces);
    let arrivals = all(&plan);
    let areas: Vec<_> = arrivals.iter().map(|a| plan.expected_count(a.offset_ns)).collect();
    let mut gaps: Vec<_> = areas.windows(2).map(|w| w[1] - w[0]).collect();
    gaps.sort_by(f64::total_cmp);
    let n = gaps.len() as f64;
    let distance = ks_distance(&gaps, |x| 1.0 - (-x).exp());
    assert!(distance < 1.63 / n.sqrt(), "KS distance {distance} over {n} gaps");
    // The count itself is Poisson: within 4.5 standard deviations of its mean.
    let mean = curve(&plan).total();
    assert!((arrivals.len() as f64 - mean).abs() < 4.5 * mean.sqrt());
}

/// Within a stage, scattered arrivals are independent draws from its rate curve: their distribution is that of the
/// curve (KS), and counts in equal parts of its area are multinomial (χ²).
#[test]
fn scattered_arrivals_are_drawn_from_the_curve() {
    let pieces = [line(500.0, 3000.0, 10_000_000), sine(2000.0, 2000.0, 2_500_000, 0.3, 10_000_000)];
    let plan = plan(Arrivals::Scattered, &pieces);
    let arrivals = all(&plan);
    assert_eq!(arrivals.len() as u64, plan.expected_total());
    for (start_ns, end_ns, n) in [(0, 10_000_000_000, 17_500), (10_000_000_000, 20_000_000_000, 20_000)] {
        let (before, after) = (curve(&plan).integral(start_ns), curve(&plan).integral(end_ns));
        let share = |at: u64| (curve(&plan).integral(at) - before) / (after - before);
        let inside = arrivals.iter().filter(|a| (start_ns..end_ns).contains(&a.offset_ns));
        let shares: Vec<_> = inside.map(|a| share(a.offset_ns)).collect();
        assert_eq!(shares.len(), n);
        let distance = ks_distance(&shares, |x| x);
        assert!(distance < 1.63 / (n as f64).sqrt(), "KS distance {distance} over {n}");
        // Not too even either: uniform arrivals would have a distance of 1/n.
        assert!(
            distance > 0.1 / (n as f64).sqrt(),
            "KS distance {distance} over {n} is too good to be random"
        );
        let expected = n as f64 / 20.0;
        let counts = shares.iter().fold([0.0; 20], |mut counts, x| {
            counts[((x * 20.0) as usize).min(19)] += 1.0;
            counts
        });
        let chi2: f64 = counts.iter().map(|seen: &f64| (seen - expected).powi(2) / expected).sum();
        assert!((6.8..36.2).contains(&chi2), "χ² = {chi2}; 99 % of 19 degrees of freedom lie in 6.8 to 36.2");
        // Gaps between them are exponential to 1/n.
        let mut gaps: Vec<_> = shares.windows(2).map(|w| (w[1] - w[0]) * n as f64).collect();
        gaps.sort_by(f64::total_cmp);
        let distance = ks_distance(&gaps, |x| 1.0 - (-x).exp());
        assert!(distance < 1.63 / (n as f64).sqrt(), "KS distance of gaps {distance} over {n}");
    }
}

#[test]
fn seeds_reproduce_and_differ() {
    for kind in [Arrivals::Poisson, Arrivals::Scattered] {
        let one = plan(kind, &[line(500.0, 500.0, 2_000_000), line(500.0, 500.0, 2_000_000)]);
        let mut other = one.clone();
        assert_eq!(all(&one), all(&other));
        other.seed[2] = 1;
        assert_ne!(all(&one), all(&other), "{kind:?}");
        // Two stages of one rate are not one the copy of the other.
        let arrivals = all(&one);
        let of = |from: u64| -> Vec<u64> {
            let inside = arrivals.iter().filter(|a| (from..from + 2_000_000_000).contains(&a.offset_ns));
            inside.take(10).map(|a| a.offset_ns - from).collect()
        };
        assert_ne!(of(0), of(2_000_000_000), "{kind:?}");
    }
}

fn any_piece() -> impl Strategy<Value = Piece> {
    let level = prop_oneof![Just(0.0), 0.0..300.0_f64, (0_u32..300).prop_map(f64::from)];
    let duration = 1_u64..3_000_000;
    let wave = (0.1..300.0_f64, prop_oneof![Just(1.0), 0.0..1.0_f64], 1000_u64..5_000_000, -2.0..2.0_f64);
    prop_oneof![
        (level.clone(), level, duration.clone()).prop_map(|(from, to, length)| line(from, to, length)),
        (wave, duration).prop_map(|((mean, share, period, phase), length)| {
            sine(mean, mean * share, period, phase, length)
        }),
    ]
}

fn any_pieces() -> impl Strategy<Value = Vec<Piece>> {
    prop::collection::vec(any_piece(), 1..6)
}

fn any_plan() -> impl Strategy<Value = ArrivalPlan> {
    let list = (prop::collection::vec(0_u64..3_000_000_000, 1..300), 1_u64..4_000_000);
    prop_oneof![
        3 => (prop::sample::select(&KINDS[..]), any_pieces()).prop_map(|(kind, pieces)| plan(kind, &pieces)),
        1 => list.prop_map(|(mut offsets, duration_us)| {
            offsets.sort_unstable();
            let least_us = offsets.last().map_or(0, |ns| ns / 1000 + 1);
            listed(offsets, duration_us.max(least_us))
        }),
    ]
}

proptest! {
    #[test]
    fn counts_agree_with_what_is_generated(plan in any_plan(), at in 0.0..1.1_f64) {
        let arrivals = all(&plan);
        let poisson = matches!(plan.source, Source::Rate(Arrivals::Poisson, _));
        prop_assert!(poisson || arrivals.len() as u64 == plan.expected_total());
        prop_assert!(arrivals.iter().enumerate().all(|(k, a)| a.index == k as u64));
        prop_assert!(arrivals.windows(2).all(|w| w[0].offset_ns <= w[1].offset_ns));
        prop_assert!(arrivals.iter().all(|a| a.offset_ns < plan.end_ns()));
        let t = (at * plan.end_ns() as f64) as u64;
        let due = |t| arrivals.iter().filter(|a| a.offset_ns < t).count() as u64;
        // At any moment, and right at, before and after an arrival.
        let near = arrivals.get((at * 0.9 * arrivals.len() as f64) as usize).map_or(0, |a| a.offset_ns);
        for t in [t, near, near + 1, near.saturating_sub(1), plan.end_ns()] {
            prop_assert_eq!(due(t), plan.count_before(t), "before {}", t);
        }
        if matches!(plan.source, Source::Rate(Arrivals::Uniform, _) | Source::Times(_)) {
            prop_assert!((due(t) as f64 - plan.expected_count(t)).abs() <= 1.0 + 1e-6);
        }
    }

    #[test]
    fn the_integral_grows_and_its_inverse_is_right(pieces in any_pieces(), share in 0.001..0.999_f64) {
        let plan = plan(Arrivals::Uniform, &pieces);
        let (curve, end_ns) = (curve(&plan), plan.end_ns());
        let area = share * curve.total();
        prop_assume!(area > 1e-3);
        let t = curve.inverse(area);
        // A ns at the highest rate is 6e-7 arrivals.
        prop_assert!(curve.integral(t + 1) >= area - 1e-6);
        prop_assert!(curve.integral(t.saturating_sub(1)) <= area + 1e-6);
        let steps: Vec<_> = (0..=200).map(|i| curve.integral(end_ns * i / 200)).collect();
        prop_assert!(steps.windows(2).all(|w| w[0] <= w[1] + 1e-9));
    }

    /// The integral is that of the level: midpoint sums of 2,000 slices a stage come close.
    #[test]
    fn the_integral_is_that_of_the_level(piece in any_piece()) {
        let plan = plan(Arrivals::Uniform, &[piece]);
        let (curve, end_ns) = (curve(&plan), plan.end_ns());
        prop_assume!(end_ns > 1_000_000);
        let n = 2000;
        let width_s = end_ns as f64 / f64::from(n) / 1e9;
        let middle = |i| (end_ns as f64 * (f64::from(i) + 0.5) / f64::from(n)) as u64;
        let sum: f64 = (0..n).map(|i| curve.level(middle(i)) * width_s).sum();
        let waves = if let Shape::Sine(s) = piece.0 { piece.1 as f64 / s.period_us as f64 } else { 0.0 };
        // Of a slice that is wide beside the wave nothing can be said.
        prop_assume!(waves < 100.0);
        prop_assert!((sum - curve.total()).abs() <= 1e-6 + 2e-3 * curve.total(), "{} and {}", sum, curve.total());
    }

    #[test]
    fn shards_are_a_partition(plan in any_plan(), threads in 1_u64..6) {
        let mut together: Vec<_> = (0..threads).flat_map(|i| plan.shard(i, threads)).collect();
        together.sort_by_key(|a| a.index);
        prop_assert_eq!(together, all(&plan));
    }
}
