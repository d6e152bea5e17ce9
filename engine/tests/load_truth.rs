//! Known answers: what the engine measures is what the target did, and a target that stands still is seen as its users see it.
//!
//! All with real sockets. On a busy machine the instrument itself may be late; it says so (lag), and so does the target. What does
//! not depend on time (how many, which, never shorter than the script) must hold in every run. What does must hold within its
//! bounds in one of a few runs: a virtual machine that stood still between the two is seen by neither, but it does not do so
//! every time, and an engine that measures wrongly would.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod load_support;

use load_support::patience::{ATTEMPTS, Ahead, patiently};
use load_support::scripted::{Act, Freeze, Scripted, Seen};
use load_support::{Outcome, Record, job, ks_distance, number, open, run, text};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// An instrument, or a target, that was later than this in 1 % of cases measured itself.
const SPOILED_US: u64 = 20_000;

/// One that was later than this in a quarter of cases did not measure what half of all meet.
const SLOW_US: u64 = 500;

/// A run, and what its target saw.
struct Measured {
    outcome: Outcome,
    seen: Seen,
}

impl Measured {
    fn own(&self, key: &str) -> u64 {
        self.outcome.event("done")["self"][key].as_u64().unwrap()
    }

    fn lag_p99_us(&self) -> u64 {
        self.own("lag_p99_us")
    }

    /// How late they were, for who reads why a run was not as it should be.
    fn and_how_late(&self, why: &str) -> String {
        let (lag, late) = (self.lag_p99_us(), self.seen.late_us(990));
        format!("{why} (in 1 % of cases the engine was {lag} µs late, the target {late} µs)")
    }

    /// That neither was so late that a comparison within bounds for lateness would agree with anything.
    fn is_sharp(&self) -> Result<(), String> {
        ensure(self.lag_p99_us().max(self.seen.late_us(990)) <= SPOILED_US, || "spoiled".into())?;
        let mut lags: Vec<_> = self.outcome.records.iter().map(|r| microseconds(r, "lag_us")).collect();
        let (lag, late) = (percentile(&mut lags, 0.75), self.seen.late_us(750));
        ensure(lag.max(late as f64) <= SLOW_US as f64, || {
            format!("in a quarter of cases the engine was {lag} µs late, or the target {late} µs")
        })
    }
}

/// A run against a script that is all that the machine does, if it can be had.
fn measured(server: Scripted, mut job: Value) -> Measured {
    let _ahead = Ahead::take();
    job["nice"] = (-10).into();
    Measured { outcome: run(job), seen: server.end() }
}

/// That a run is as it should be. One that is not is repeated.
fn is_as_it_should(most: usize, run: impl Fn() -> Measured, check: impl Fn(&Measured) -> Result<(), String>) {
    let attempt = || {
        let measured = run();
        check(&measured).map_err(|why| measured.and_how_late(&why))
    };
    patiently(most, attempt).unwrap();
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

/// That it is within bounds.
fn within<T: PartialOrd + Copy + std::fmt::Display>(
    what: &str,
    is: T,
    bounds: &std::ops::Range<T>,
) -> Result<(), String> {
    ensure(bounds.contains(&is), || format!("{what}: {is}, not from {} to {}", bounds.start, bounds.end))
}

/// That nothing but answers came. A machine that gives the target no core for half a second may leave no descriptor or no place in
/// its backlog for whoever comes next: an error is that; any other outcome is wrong at once.
fn all_were_answered(outcome: &Outcome) -> Result<(), String> {
    let mut others = BTreeMap::<String, usize>::new();
    for name in outcome.outcomes().into_iter().filter(|name| name != "answered") {
        *others.entry(name).or_default() += 1;
    }
    let found_no_place = others.keys().all(|name| ["not_sent", "timeout:connect"].contains(&name.as_str()));
    assert!(found_no_place, "{others:?}, findings: {:?}", outcome.findings());
    ensure(others.is_empty(), || format!("{others:?}, findings: {:?}", outcome.findings()))
}

fn steps(path: &str) -> Value {
    json!([{"request": {"name": "get", "path": format!("{path}/{{{{ arrival }}}}")}}])
}

fn microseconds(record: &Record, column: &str) -> u64 {
    number(record, column).unwrap() as u64
}

/// From the actual start to the end.
fn total(record: &Record) -> u64 {
    microseconds(record, "ttfb_us") + microseconds(record, "after_ttfb_us")
}

/// From the intended start to the end.
fn latency(record: &Record) -> u64 {
    microseconds(record, "lag_us") + microseconds(record, "wait_us") + total(record)
}

/// Type 7, as reports have it.
fn percentile(values: &mut [u64], q: f64) -> f64 {
    values.sort_unstable();
    let place = q * (values.len() - 1) as f64;
    let (low, part) = (place.floor() as usize, place.fract());
    let high = (low + 1).min(values.len() - 1);
    values[low] as f64 + (values[high] as f64 - values[low] as f64) * part
}

fn p99_ms(outcome: &Outcome, of: impl Fn(&Record) -> u64) -> f64 {
    percentile(&mut outcome.records.iter().map(of).collect::<Vec<_>>(), 0.99) / 1e3
}

// --- coordinated omission ---

/// 2,000/s for 30 s against a server that stands still for 1.4 s.
fn frozen(max_in_flight: Option<u64>) -> Measured {
    let freeze = Freeze { after: Duration::from_secs(12), length: Duration::from_millis(1400) };
    let server = Scripted::start(|_, _| Act::Answer(200, 0), Some(freeze));
    let mut load = open(2000.0, 30_000_000);
    load["max_in_flight"] = max_in_flight.into();
    load["when_full"] = "queue".into();
    let mut job = job(&server.at(), load, steps("/fast"));
    job["workloads"][0]["timeout_us"] = 10_000_000.into();
    measured(server, job)
}

/// Half a minute each.
const FREEZES: usize = 4;

/// A share f = 1.4 s ÷ 30 s of the requests waits between 0 and 1.4 s, evenly: p99 = 1.4 s · (1 − 0.01/f) = 1.1 s. What has
/// piled up must be answered, too: that makes it a little more. (peers: wrk2's README; 1 % of 60,000 are 600 of the 2,800.)
const P99_MS: std::ops::Range<f64> = 1090.0..1350.0;

#[test]
fn a_freeze_is_hidden_from_the_actual_start_and_not_from_the_intended_one() {
    is_as_it_should(
        FREEZES,
        || frozen(Some(100)),
        |Measured { outcome, seen }| {
            all_were_answered(outcome)?;
            let counts = (outcome.count("due"), outcome.records.len(), seen.requests.len());
            assert_eq!(counts, (60_000, 60_000, 60_000));
            assert!(outcome.findings().contains(&"in_flight_bound_reached"), "{:?}", outcome.findings());
            within("p99 from the intended start, ms", p99_ms(outcome, latency), &P99_MS)?;
            // Only 100 of 60,000 were under way when it stood still.
            within("p99 from the actual start, ms", p99_ms(outcome, total), &(0.0..20.0))
        },
    );
}

#[test]
fn without_a_bound_a_freeze_is_seen_from_both_starts() {
    is_as_it_should(
        FREEZES,
        || frozen(None),
        |Measured { outcome, .. }| {
            assert_eq!((outcome.count("due"), outcome.records.len()), (60_000, 60_000));
            all_were_answered(outcome)?;
            assert!(!outcome.findings().contains(&"in_flight_bound_reached"));
            within("p99 from the intended start, ms", p99_ms(outcome, latency), &P99_MS)?;
            within("p99 from the actual start, ms", p99_ms(outcome, total), &P99_MS)?;
            // 2,800 are due in 1.4 s.
            let most = outcome.event("done")["self"]["in_flight_max"].as_u64().unwrap();
            within("at once", most, &(2700..3600))
        },
    );
}

// --- delays that are known ---

/// In [0, 1), from a number (splitmix64's finaliser).
fn share(n: u64) -> f64 {
    let mut z = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

/// The script: a delay in µs for each request, which both sides can compute.
fn delay_us(kind: &str, n: u64) -> u64 {
    match kind {
        "/constant" => 5_000,
        "/bimodal" if share(n) < 0.9 => 2_000,
        "/bimodal" => 20_000,
        "/exponential" => (-(1.0 - share(n)).ln() * 5_000.0) as u64,
        other => panic!("{other} is not in the script"),
    }
}

/// The error that is stated for a machine that is quiet. How late target and engine say that they were is added: the one is in what
/// the target did, and the engine reads answers as late as it sends requests.
const STATED_ERROR_US: f64 = 1_000.0;

/// A run against the script.
fn scripted(kind: &'static str, per_s: f64, seconds: u64) -> Measured {
    let server = Scripted::start(|kind, n| Act::Answer(200, delay_us(kind, n)), None);
    let job = job(&server.at(), open(per_s, seconds * 1_000_000), steps(kind));
    measured(server, job)
}

/// That what a run measures is what the script says: no request less than its delay, and each percentile within the error that is
/// stated for how late engine and target were.
fn is_the_script(kind: &str, per_s: f64, measured: &Measured) -> Result<(), String> {
    measured.is_sharp()?;
    // What moves the median is what half of all meet, what moves the tail is rare.
    let late =
        |per_mille, lag| STATED_ERROR_US + (measured.seen.late_us(per_mille) + measured.own(lag)) as f64;
    let median_us = late(500, "lag_p50_us");
    let middle_us = late(990, "lag_p99_us");
    let tail_us = late(999, "lag_p999_us");
    let mut truth = Vec::new();
    let mut found = Vec::new();
    for record in &measured.outcome.records {
        truth.push(delay_us(kind, microseconds(record, "user")));
        found.push(microseconds(record, "ttfb_us"));
    }
    let mut report = Vec::new();
    for q in [0.25, 0.5, 0.75, 0.95, 0.99] {
        let (is, should) = (percentile(&mut found, q), percentile(&mut truth, q));
        report.push(format!("p{}: {is} for {should}", q * 100.0));
        let allowed = match q {
            q if q > 0.9 => tail_us,
            // At 10,000/s engine and target together are most of a core: where others want it too, half of all wait a little.
            q if q > 0.5 || per_s > 1000.0 => middle_us,
            _ => median_us,
        };
        // A percentile next to the gap between the modes may fall on either side of it.
        let near_gap = kind == "/bimodal" && (q - 0.9).abs() < 0.02;
        ensure(near_gap || (is - should).abs() <= allowed, || format!("{report:?}, allowed ± {allowed} µs"))?;
    }
    eprintln!(
        "{kind} at {per_s}/s: {}; allowed ± {median_us} µs, above the median {middle_us}, in the tail {tail_us}",
        report.join(", ")
    );
    Ok(())
}

/// That every request was made, reached the target, and took no less than its delay.
fn assert_none_is_lost_or_shorter(kind: &str, due: usize, Measured { outcome, seen }: &Measured) {
    assert_eq!((outcome.records.len(), seen.requests.len()), (due, due), "{kind}");
    for record in &outcome.records {
        let (scripted, ttfb) =
            (delay_us(kind, microseconds(record, "user")), microseconds(record, "ttfb_us"));
        // Whole µs on the run clock: two of them may be lost at the edges.
        assert!(
            ttfb + 2 >= scripted,
            "request {}: {ttfb} µs, less than the script's {scripted}",
            text(record, "step")
        );
    }
}

/// An error is that no run of a few measured what the script says.
fn delays_are_measured(kind: &'static str, per_s: f64, seconds: u64) -> Result<(), String> {
    let attempt = || {
        let measured = scripted(kind, per_s, seconds);
        all_were_answered(&measured.outcome).map_err(|why| measured.and_how_late(&why))?;
        assert_none_is_lost_or_shorter(kind, (per_s * seconds as f64) as usize, &measured);
        is_the_script(kind, per_s, &measured).map_err(|why| measured.and_how_late(&why))
    };
    patiently(ATTEMPTS, attempt).map_err(|why| format!("{kind} at {per_s}/s: {why}"))
}

const KINDS: [&str; 3] = ["/constant", "/bimodal", "/exponential"];

#[test]
fn scripted_delays_are_measured_at_a_thousand_a_second() {
    for kind in KINDS {
        delays_are_measured(kind, 1000.0, 4).unwrap();
    }
}

#[test]
fn scripted_delays_are_measured_at_ten_thousand_a_second() {
    for kind in KINDS {
        delays_are_measured(kind, 10_000.0, 3).unwrap();
    }
}

/// Whether 99 % of the requests of one of three runs are sent within 5 ms of when they are due: what this machine can do steadily,
/// engine and target together.
fn is_steady(per_s: f64) -> bool {
    let probe = || {
        let measured = scripted("/constant", per_s, 3);
        assert_eq!(measured.outcome.count("due"), measured.outcome.count("rows"), "{per_s}/s");
        let (lag, late) = (measured.lag_p99_us(), measured.seen.late_us(990));
        let said = format!("{per_s}/s: the engine {lag} µs late, the target {late} µs");
        if lag.max(late) < 5_000 { Ok(said) } else { Err(said) }
    };
    patiently(3, probe).inspect(|said| eprintln!("{said}")).is_ok()
}

/// Where the machine has become busier since the climb, the next lower rate has to do, and is said; at the lowest there is none.
#[test]
#[ignore = "slow tier: climbs to the highest steady rate"]
fn scripted_delays_are_measured_at_the_highest_steady_rate() {
    let rates = [1_000.0, 5_000.0, 10_000.0, 15_000.0, 20_000.0, 30_000.0, 40_000.0, 60_000.0, 80_000.0];
    let steady: Vec<f64> = rates.into_iter().take_while(|rate| is_steady(*rate)).collect();
    let mut spoiled = Vec::new();
    for per_s in steady.iter().rev() {
        match KINDS.iter().try_for_each(|kind| delays_are_measured(kind, *per_s, 3)) {
            Ok(()) => {
                eprintln!("measured at {per_s}/s; steady were {steady:?}");
                return;
            }
            Err(why) => spoiled.push(why),
        }
    }
    panic!("this machine is too busy to tell: steady were {steady:?}; {}", spoiled.join("; "));
}

// --- outcomes that are known ---

fn act(n: u64) -> (Act, &'static str) {
    match n % 20 {
        0 | 1 => (Act::Answer(500, 0), "check:status"),
        2 => (Act::Answer(404, 1_000), "check:status"),
        3 | 4 => (Act::Reset, "reset"),
        5 => (Act::Close, "closed"),
        6 => (Act::Stall, "timeout:first_byte"),
        7 => (Act::Answer(200, 900_000), "timeout:first_byte"),
        _ => (Act::Answer(200, 500), "answered"),
    }
}

#[test]
fn scripted_outcomes_are_counted_to_the_request() {
    let run = || {
        let server = Scripted::start(|_, n| act(n).0, None);
        let mut load = open(500.0, 4_000_000);
        load["arrivals"] = "scattered".into();
        let mut job = job(&server.at(), load, steps("/any"));
        job["workloads"][0]["timeout_us"] = 400_000.into();
        job["threads"] = 2.into();
        measured(server, job)
    };
    is_as_it_should(ATTEMPTS, run, |Measured { outcome, .. }| {
        assert_eq!((outcome.count("due"), outcome.records.len()), (2000, 2000));
        let mut expected: BTreeMap<String, u64> = BTreeMap::new();
        for record in &outcome.records {
            let n = microseconds(record, "user");
            let (scripted, name) = act(n);
            *expected.entry(name.into()).or_default() += 1;
            let is = text(record, "outcome");
            ensure(is == name, || format!("request {n} was to get {scripted:?} and is {is}, not {name}"))?;
            if let Act::Answer(status, _) = scripted
                && name != "timeout:first_byte"
            {
                assert_eq!(number(record, "status"), Some(i64::from(status)));
            }
        }
        let counted = outcome.event("done")["counts"]["by_outcome"].as_object().unwrap();
        let counted = counted.iter().map(|(k, v)| (k.clone(), v.as_u64().unwrap())).filter(|(_, n)| *n > 0);
        assert_eq!(counted.collect::<BTreeMap<_, _>>(), expected);
        Ok(())
    });
}

// --- when requests arrive ---

/// That requests come in, by the clock of the target, as a model says: what is measured of their times, in s, and less than what
/// that is to be. A run that is not so is repeated.
fn arrivals_follow(arrivals: &str, check: impl Fn(&[f64]) -> Vec<(&'static str, f64, f64)>) {
    let attempt = || {
        let server = Scripted::start(|_, _| Act::Answer(200, 0), None);
        let mut load = open(PER_S, SECONDS * 1_000_000);
        load["arrivals"] = arrivals.into();
        let job = job(&server.at(), load, steps("/any"));
        let measured = measured(server, job);
        let seen = &measured.seen.requests;
        assert_eq!(measured.outcome.records.len(), seen.len(), "{arrivals}");
        let began = seen.iter().map(|r| r.1).min().unwrap();
        let mut times: Vec<_> = seen.iter().map(|r| (r.1 - began) as f64 / 1e9).collect();
        times.sort_by(f64::total_cmp);
        for (what, is, allowed) in check(&times) {
            eprintln!("{arrivals}: {what} {is:.4}, allowed {allowed:.4}");
            within(&format!("{arrivals}: {what}"), is, &(0.0..allowed))
                .map_err(|why| measured.and_how_late(&why))?;
        }
        Ok(())
    };
    patiently(ATTEMPTS, attempt).unwrap();
}

fn gaps(times: &[f64]) -> Vec<f64> {
    times.windows(2).map(|w| w[1] - w[0]).collect()
}

const PER_S: f64 = 250.0;
const SECONDS: u64 = 8;
/// A gap of an even schedule may be so much longer or shorter than 1/rate: both its ends were seen by machines.
const GAP_S: f64 = 0.001;

#[test]
fn requests_arrive_as_the_schedule_says() {
    arrivals_follow("uniform", |times| {
        assert_eq!(times.len(), 2000);
        // The distance from a step at 1/rate, for whom 3 to 5 ms are 4 ms. Poisson gaps of this rate would be at 0.53 (those
        // below 3 ms), pairs at 0.5.
        let (gaps, even) = (gaps(times), 1.0 / PER_S);
        let share =
            |of: &dyn Fn(f64) -> bool| gaps.iter().filter(|gap| of(**gap)).count() as f64 / gaps.len() as f64;
        let from_step = share(&|gap| gap < even - GAP_S).max(share(&|gap| gap > even + GAP_S));
        let from_line = ks_distance(times.to_vec(), |t| (t / SECONDS as f64).clamp(0.0, 1.0));
        vec![("KS distance of times", from_line, 0.02), ("KS distance of gaps", from_step, 0.125)]
    });
    arrivals_follow("poisson", |times| {
        // 1.63/√n is the 1 % point; wake-ups that are a little late change the shortest gaps. Together 0.056: gaps that were more even
        // than a Poisson process's fail it, such as those of an Erlang-1.5 (gamma) law of the same mean, 0.085 ± 0.01 from it.
        let allowed = 1.63 / (times.len() as f64).sqrt() + 0.02;
        let distance = ks_distance(gaps(times), |gap| 1.0 - (-gap * PER_S).exp());
        vec![("KS distance of gaps", distance, allowed)]
    });
}
