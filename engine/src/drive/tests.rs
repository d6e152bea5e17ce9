//! Load models on a virtual clock against scripted answers: exact, and in no time.
use super::recorder::Recorder;
use super::stats::Stats;
use super::worker::Worker;
use crate::job::Job;
use crate::journey::Plan;
use crate::record::row::{NONE_U32, Row, flags};
use crate::transport::Outcome;
use crate::transport::client::Instances;
use crate::transport::fake::{Answer, Fake};
use crate::transport::reactor::{Clock, Reactor};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::channel;

const START_NS: u64 = 5_000_000_000;
const MS: u64 = 1_000_000;

struct Run {
    rows: Vec<Row>,
    worker: Rc<Worker<Fake>>,
    findings: Vec<&'static str>,
}

impl Run {
    fn outcomes(&self, outcome: Outcome) -> usize {
        self.rows.iter().filter(|r| r.outcome == outcome.id()).count()
    }

    fn due(&self) -> u64 {
        self.worker.stats.due.get()
    }

    /// In ms.
    fn scheduled(&self) -> Vec<i64> {
        self.rows.iter().map(|r| r.scheduled_us / 1000).collect()
    }
}

fn job(load: &Value, journey: &Value) -> Value {
    json!({
        "version": 1, "run_id": "r", "seed": 3, "output": "/nowhere",
        "targets": {"app": {"instances": [{"name": "a", "url": "http://127.0.0.1:1"}]}},
        "workloads": [{"name": "w", "timeout_us": 1_000_000, "load": load, "journey": journey}],
    })
}

fn one_step() -> Value {
    json!({"steps": [{"request": {"name": "s", "path": "/"}}]})
}

fn run_job(job: &Value, script: impl FnMut(u64, u64) -> Answer + 'static) -> Run {
    let job = Job::from_json(&job.to_string()).unwrap_or_else(|p| panic!("{p:?}"));
    let plan = Arc::new(Plan::new(job).unwrap_or_else(|p| panic!("{p:?}")));
    let rt = Rc::new(Reactor::new(Clock::virtual_at(START_NS - MS)).expect("epoll"));
    let (stats, instances) = (Arc::<Stats>::default(), Rc::new(RefCell::new(Instances::default())));
    let (notes, inbox) = channel();
    let recorder = Recorder::new(None, &plan, &stats, notes, &instances, (0, START_NS));
    let fake = Fake::new(Rc::clone(&rt), script);
    let worker = Worker::new(rt, plan, fake, recorder, stats, (0, START_NS));
    worker.populate();
    worker.run().expect("run");
    let findings = inbox.try_iter().filter_map(|note| match note {
        super::findings::Note::Finding(finding) => Some(finding.name),
        _ => None,
    });
    let findings = findings.collect();
    Run { rows: worker.recorder.rows.take(), worker, findings }
}

fn run(load: &Value, script: impl FnMut(u64, u64) -> Answer + 'static) -> Run {
    run_job(&job(load, &one_step()), script)
}

fn open(per_s: u32, seconds: u64) -> Value {
    let stage = json!({"from_per_s": per_s, "to_per_s": per_s, "duration_us": seconds * 1_000_000});
    json!({"model": "open", "stages": [stage]})
}

fn closed(users: u32, ms: u64) -> Value {
    json!({"model": "closed", "stages": [{"from_users": users, "to_users": users, "duration_us": ms * 1000}]})
}

fn with(mut load: Value, key: &str, value: impl Into<Value>) -> Value {
    load[key] = value.into();
    load
}

fn latency_us(row: &Row) -> u32 {
    let ttfb = if row.ttfb_us == NONE_U32 { 0 } else { row.ttfb_us };
    row.lag_us + row.wait_us + ttfb + row.after_ttfb_us
}

#[test]
fn open_load_keeps_its_schedule_exactly() {
    let run = run(&open(1000, 30), |_, _| (12 * MS, Outcome::Answered));
    assert_eq!((run.rows.len(), run.due()), (30_000, 30_000));
    for (k, row) in run.rows.iter().enumerate() {
        assert_eq!((row.scheduled_us, row.lag_us, row.wait_us), (k as i64 * 1000, 0, 0));
        assert_eq!((row.user, row.ttfb_us, row.after_ttfb_us), (k as u32, 12_000, 0));
    }
    // An answer and an arrival of the same instant may come in either order.
    assert!((12..=13).contains(&run.worker.stats.in_flight_max.get()));
}

/// The classic demonstration: 2,000/s for 30 s, frozen from 10 s to 11.4 s. Of 60,000 requests 2,800 meet the freeze and
/// wait between 0 and 1.4 s, evenly: p99 = 1.4 · (1 − 600 ÷ 2,800) = 1.1 s.
#[test]
fn a_freeze_is_seen_from_the_intended_start() {
    let freeze = |_, started_ns: u64| {
        let (from_ns, to_ns) = (START_NS + 10_000 * MS, START_NS + 11_400 * MS);
        let frozen_ns = if started_ns >= from_ns { to_ns.saturating_sub(started_ns) } else { 0 };
        (frozen_ns + MS, Outcome::Answered)
    };
    let p99_ms = |run: &Run, of: &dyn Fn(&Row) -> u32| {
        let mut all: Vec<_> = run.rows.iter().map(of).collect();
        all.sort_unstable();
        all[all.len() * 99 / 100] / 1000
    };
    let total = |row: &Row| row.ttfb_us + row.after_ttfb_us;
    let mut bounded = job(&with(open(2000, 30), "max_in_flight", 100), &one_step());
    bounded["workloads"][0]["timeout_us"] = 5_000_000.into();
    let bounded = run_job(&bounded, freeze);
    assert_eq!(bounded.rows.len(), 60_000);
    assert!((1095..=1110).contains(&p99_ms(&bounded, &latency_us)), "{}", p99_ms(&bounded, &latency_us));
    assert!(p99_ms(&bounded, &total) <= 2);
    assert_eq!(bounded.findings, ["in_flight_bound_reached"]);
    let mut unbounded = job(&open(2000, 30), &one_step());
    unbounded["workloads"][0]["timeout_us"] = 5_000_000.into();
    let unbounded = run_job(&unbounded, freeze);
    assert!((1095..=1110).contains(&p99_ms(&unbounded, &latency_us)));
    assert!((1095..=1110).contains(&p99_ms(&unbounded, &total)));
    assert!(unbounded.findings.is_empty());
    assert!((2800..2810).contains(&unbounded.worker.stats.in_flight_max.get()));
}

#[test]
fn above_the_bound_arrivals_are_dropped_if_asked() {
    let load = with(with(open(100, 2), "max_in_flight", 5), "when_full", "drop");
    let run = run(&load, |_, _| (95 * MS, Outcome::Answered));
    // Each slot serves one arrival in ten, and five of ten find one.
    assert_eq!((run.rows.len(), run.due(), run.outcomes(Outcome::NotSent)), (200, 200, 100));
    assert_eq!(run.worker.stats.dropped.get(), 100);
    let unsent = run.rows.iter().find(|r| r.outcome == Outcome::NotSent.id()).expect("some");
    assert_eq!((unsent.ttfb_us, unsent.after_ttfb_us, unsent.wait_us), (NONE_U32, NONE_U32, 0));
}

/// Whether an arrival is served depends on the system; which step it begins with must not.
#[test]
fn an_unsent_arrival_is_booked_on_the_step_that_it_would_have_begun_with() {
    const RARE: u16 = 0;
    let branch = |weight: u32, name: &str| json!({"weight": weight, "steps": [{"request": {"name": name, "path": "/"}}]});
    let journey = json!({"steps": [{"choose": [branch(1, "rare"), branch(9, "often")]}]});
    let steps = |load: &Value, outcome: Outcome| -> Vec<(u32, u16)> {
        let run = run_job(&job(load, &journey), |_, _| (950 * MS, Outcome::Answered));
        let rows = run.rows.iter().filter(|r| r.outcome == outcome.id());
        let mut steps: Vec<_> = rows.map(|r| (r.user, r.step)).collect();
        steps.sort_unstable();
        steps
    };
    let served = steps(&open(100, 20), Outcome::Answered);
    assert_eq!(served.len(), 2000);
    for full in ["drop", "queue"] {
        let load = with(with(open(100, 20), "max_in_flight", 1), "when_full", full);
        let unsent = steps(&load, Outcome::NotSent);
        assert!(unsent.len() > 1900, "{full}: {}", unsent.len());
        let rare = unsent.iter().filter(|(_, step)| *step == RARE).count();
        let share = rare as f64 / unsent.len() as f64;
        assert!((0.08..0.12).contains(&share), "{full}: {share}");
        assert!(unsent.iter().all(|(user, step)| served[*user as usize] == (*user, *step)), "{full}");
    }
}

#[test]
fn a_queue_is_waited_in_for_one_timeout() {
    // One slot, busy for 900 ms each time: 1.1 are served a second, the others give up after a second.
    let run = run(&with(open(10, 5), "max_in_flight", 1), |_, _| (900 * MS, Outcome::Answered));
    assert_eq!((run.rows.len(), run.due()), (50, 50));
    let unsent: Vec<_> = run.rows.iter().filter(|r| r.outcome == Outcome::NotSent.id()).collect();
    assert!((40..=46).contains(&unsent.len()), "{}", unsent.len());
    // Given up at the end of their patience, or at the end of the drain.
    assert!(unsent.iter().all(|r| r.wait_us <= 1_000_000));
    assert!(unsent.iter().filter(|r| r.wait_us == 1_000_000).count() > 30);
    assert!(run.rows.iter().all(|r| r.scheduled_us + i64::from(latency_us_or_wait(r)) <= 6_000_000));
}

fn latency_us_or_wait(row: &Row) -> u32 {
    if row.after_ttfb_us == NONE_U32 { row.lag_us + row.wait_us } else { latency_us(row) }
}

#[test]
fn a_dead_server_loses_no_arrival() {
    let run = run(&with(open(50, 3), "max_in_flight", 10), |_, _| (u64::MAX / 4, Outcome::Answered));
    assert_eq!((run.rows.len(), run.due()), (150, 150));
    let timeouts = run.outcomes(Outcome::TimeoutFirstByte);
    assert_eq!(timeouts + run.outcomes(Outcome::NotSent) + run.outcomes(Outcome::Interrupted), 150);
    assert!(timeouts >= 30, "{timeouts}");
}

#[test]
fn sessions_of_several_steps_end_with_the_drain() {
    let journey = json!({"think": {"constant_us": 400_000},
        "steps": (0..9).map(|i| json!({"request": {"name": format!("s{i}"), "path": "/"}})).collect::<Vec<_>>()});
    let run = run_job(&job(&open(1, 1), &journey), |_, _| (100 * MS, Outcome::Answered));
    // At 0, 500, 1000 and 1500 ms; the drain ends at 2 s, where the fifth would begin.
    assert_eq!(run.scheduled(), [0, 500, 1000, 1500]);
    assert_eq!(run.worker.stats.sessions_cut.get(), 1);
    assert!(run.rows.iter().all(|r| r.outcome == Outcome::Answered.id() && r.lag_us == 0));
}

#[test]
fn an_arrival_count_ends_the_run() {
    let run = run(&with(open(100, 60), "max_arrivals", 25), |_, _| (MS, Outcome::Answered));
    assert_eq!((run.rows.len(), run.worker.ended_by_count()), (25, true));
    assert!(run.worker.rt.now() < START_NS + 1000 * MS);
}

#[test]
fn closed_users_think_and_are_due_when_they_are_due() {
    let journey = json!({"steps": [
        {"request": {"name": "a", "path": "/", "think": {"constant_us": 30_000}}},
        {"request": {"name": "b", "path": "/"}},
    ]});
    let run = run_job(&job(&closed(2, 200), &journey), |_, _| (10 * MS, Outcome::Answered));
    // a 0–10, think to 40, b 40–50, a 50–60 …
    let user: Vec<_> = run.rows.iter().filter(|r| r.user == 1).map(|r| r.scheduled_us / 1000).collect();
    assert_eq!(user, [0, 40, 50, 90, 100, 140, 150, 190]);
    assert!(run.rows.iter().all(|r| r.lag_us == 0 && r.wait_us == 0));
    assert_eq!(run.due(), 8);
    let steps: Vec<_> = run.rows.iter().filter(|r| r.user == 0).map(|r| r.step).collect();
    assert_eq!(steps, [0, 1, 0, 1, 0, 1, 0, 1]);
}

#[test]
fn random_think_times_have_their_distribution() {
    let journey = json!({"think": {"uniform_us": [10_000, 30_000]}, "steps": one_step()["steps"]});
    let run = run_job(&job(&closed(1, 100_000), &journey), |_, _| (MS, Outcome::Answered));
    let mut pauses: Vec<_> =
        run.rows.windows(2).map(|w| (w[1].scheduled_us - w[0].scheduled_us - 1000) as f64).collect();
    pauses.sort_by(f64::total_cmp);
    let n = pauses.len() as f64;
    let model = |us: f64| ((us - 10_000.0) / 20_000.0).clamp(0.0, 1.0);
    let distance =
        pauses.iter().enumerate().map(|(i, us)| (model(*us) - i as f64 / n).abs()).fold(0.0, f64::max);
    assert!(distance < 1.63 / n.sqrt(), "KS distance {distance} over {n}");
}

#[test]
fn pacing_and_rate_caps_count_from_start_to_start() {
    // A slow third iteration is followed at once, and nothing is caught up.
    let slow_third = |n, _| (if n == 2 { 130 * MS } else { 10 * MS }, Outcome::Answered);
    let expected = [0, 50, 100, 230, 280, 330, 380];
    let paced = run(&with(closed(1, 400), "pacing_us", json!({"constant_us": 50_000})), slow_third);
    assert_eq!(paced.scheduled(), expected);
    let capped = run(&with(closed(1, 400), "max_rate_per_user_per_s", 20.0), slow_third);
    assert_eq!(capped.scheduled(), expected);
}

#[test]
fn users_ramp_up_and_down() {
    let stages = json!([
        {"from_users": 0, "to_users": 4, "duration_us": 400_000},
        {"from_users": 4, "to_users": 4, "duration_us": 200_000},
        {"from_users": 4, "to_users": 0, "duration_us": 400_000},
    ]);
    let run = run(&json!({"model": "closed", "stages": stages}), |_, _| (10 * MS, Outcome::Answered));
    for user in 0..4_u32 {
        let rows: Vec<_> = run.rows.iter().filter(|r| r.user == user).collect();
        let on = i64::from(user) * 100_000;
        assert_eq!(rows.first().map(|r| r.scheduled_us), Some(on));
        assert_eq!(rows.last().map(|r| r.scheduled_us), Some(1_000_000 - on - 10_000));
        assert_eq!(rows.len(), 100 - 20 * user as usize);
    }
}

#[test]
fn a_retiring_user_has_its_grace() {
    let stages = json!([
        {"from_users": 1, "to_users": 1, "duration_us": 100_000},
        {"from_users": 0, "to_users": 0, "duration_us": 900_000},
    ]);
    let load = json!({"model": "closed", "stages": stages});
    let slow = |_, _| (300 * MS, Outcome::Answered);
    let finished = run(&with(load.clone(), "graceful_us", 250_000), slow);
    assert_eq!((finished.rows.len(), finished.outcomes(Outcome::Answered)), (1, 1));
    let cut = run(&with(load, "graceful_us", 150_000), slow);
    assert_eq!((cut.rows.len(), cut.outcomes(Outcome::Interrupted)), (1, 1));
    assert_eq!((cut.rows[0].ttfb_us, cut.rows[0].after_ttfb_us), (NONE_U32, 250_000));
}

#[test]
fn at_the_end_a_timeout_is_the_longest_grace() {
    let mut job = job(&closed(1, 100), &one_step());
    job["workloads"][0]["timeout_us"] = 200_000.into();
    job["workloads"][0]["journey"]["steps"][0]["request"]["timeout_us"] = 150_000.into();
    let run = run_job(&job, |n, _| (if n == 0 { 60 * MS } else { 900 * MS }, Outcome::Answered));
    assert_eq!((run.outcomes(Outcome::Answered), run.outcomes(Outcome::TimeoutFirstByte)), (1, 1));
    assert_eq!(run.worker.rt.now(), START_NS + 210 * MS);
}

#[test]
fn iterations_are_shared_out_before_the_start() {
    let run = run(&with(closed(3, 60_000), "iterations", 11), |n, _| ((n % 7 + 1) * MS, Outcome::Answered));
    let of = |user| run.rows.iter().filter(|r| r.user == user).count();
    assert_eq!((of(0), of(1), of(2), run.worker.ended_by_count()), (4, 4, 3, true));
    let each =
        super::tests::run(&with(closed(3, 60_000), "iterations_per_user", 5), |_, _| (MS, Outcome::Answered));
    assert_eq!((each.rows.len(), each.worker.ended_by_count()), (15, true));
    let unfinished =
        super::tests::run(&with(closed(3, 10), "iterations", 9000), |_, _| (MS, Outcome::Answered));
    assert!(!unfinished.worker.ended_by_count());
}

#[test]
fn a_user_that_reaches_nobody_waits_a_little() {
    let run = run(&closed(1, 1000), |_, _| (0, Outcome::Refused));
    assert_eq!(run.rows.len(), 100);
}

#[test]
fn the_warm_up_is_flagged() {
    let mut job = job(&open(10, 2), &one_step());
    job["workloads"][0]["warmup_us"] = 500_000.into();
    let run = run_job(&job, |_, _| (MS, Outcome::Answered));
    let warm: Vec<_> = run.rows.iter().filter(|r| r.flags & flags::WARMUP != 0).map(|r| r.user).collect();
    assert_eq!(warm, [0, 1, 2, 3, 4]);
}

#[test]
fn weights_are_kept_and_seeds_reproduce() {
    let branch = |weight: u32, name: &str| json!({"weight": weight, "steps": [{"request": {"name": name, "path": "/"}}]});
    let journey = json!({"steps": [{"choose": [branch(3, "a"), branch(1, "b"), branch(6, "c")]}]});
    let job = job(&open(1000, 20), &journey);
    let steps = || -> Vec<u16> {
        let run = run_job(&job, |_, _| (MS, Outcome::Answered));
        run.rows.iter().map(|r| r.step).collect()
    };
    let first = steps();
    assert_eq!(first, steps());
    let chi2: f64 = [0.3, 0.1, 0.6]
        .iter()
        .enumerate()
        .map(|(step, share)| {
            let (seen, expected) =
                (first.iter().filter(|s| usize::from(**s) == step).count() as f64, share * 20_000.0);
            (seen - expected).powi(2) / expected
        })
        .sum();
    assert!(chi2 < 13.8, "chi² = {chi2}, the 0.1 % point for 2 degrees of freedom is 13.8");
}

#[test]
fn a_stop_cuts_everything_and_keeps_it() {
    let job_json = job(&with(open(100, 60), "max_in_flight", 20), &one_step());
    let job = Job::from_json(&job_json.to_string()).expect("valid");
    let plan = Arc::new(Plan::new(job).unwrap_or_else(|p| panic!("{p:?}")));
    let rt = Rc::new(Reactor::new(Clock::virtual_at(START_NS)).expect("epoll"));
    let (stats, instances) = (Arc::<Stats>::default(), Rc::new(RefCell::new(Instances::default())));
    let recorder = Recorder::new(None, &plan, &stats, channel().0, &instances, (0, START_NS));
    let fake = Fake::new(Rc::clone(&rt), |_, _| (900 * MS, Outcome::Answered));
    let worker = Worker::new(Rc::clone(&rt), plan, fake, recorder, stats, (0, START_NS));
    worker.populate();
    rt.clone().spawn(async move {
        rt.sleep_until(START_NS + 505 * MS).await;
        rt.cut();
    });
    worker.run().expect("run");
    let rows = worker.recorder.rows.take();
    let count = |outcome: Outcome| rows.iter().filter(|r| r.outcome == outcome.id()).count();
    // 51 were due until 505 ms: 20 in flight, the others in the queue.
    assert_eq!((rows.len(), worker.stats.due.get()), (51, 51));
    assert_eq!((count(Outcome::Interrupted), count(Outcome::NotSent)), (20, 31));
}

#[path = "tests_load.rs"]
mod load;
