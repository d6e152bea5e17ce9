//! Load models against real sockets: every arrival has its row, and gaps are those of the schedule.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod load_support;

use load_support::patience::{bounded, in_time};
use load_support::server::Server;
use load_support::{Outcome, closed, get, job, ks_distance, number, open, run, text, times};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

fn answering() -> Server {
    Server::answering(|peer, _| peer.answer(200, "ok"))
}

/// When each request was sent, in µs on the run clock.
fn sent_us(outcome: &Outcome) -> Vec<f64> {
    let at =
        |r| number(r, "scheduled_us").unwrap() + number(r, "lag_us").unwrap() + number(r, "wait_us").unwrap();
    let mut sent: Vec<_> = outcome.records.iter().map(|r| at(r) as f64).collect();
    sent.sort_by(f64::total_cmp);
    sent
}

#[test]
fn every_arrival_has_its_row_on_any_number_of_threads() {
    for threads in [1, 2, 3] {
        let server = answering();
        let mut job = job(&server.at(), open(500.0, 1_000_000), get());
        job["threads"] = threads.into();
        let outcome = run(job);
        assert_eq!((outcome.count("due"), outcome.count("rows"), outcome.records.len()), (500, 500, 500));
        let scheduled = outcome.column("scheduled_us");
        assert!(
            scheduled.iter().enumerate().all(|(k, us)| *us == Some(k as i64 * 2000)),
            "{threads} threads"
        );
        let mut workers: Vec<_> = outcome.column("worker").into_iter().flatten().collect();
        workers.sort_unstable();
        workers.dedup();
        assert_eq!(workers.len(), threads);
        assert_eq!(outcome.event("ready")["due"], 500);
        assert_eq!(outcome.event("done")["stopped_by"], "schedule");
    }
}

/// That values follow a model as closely as is asked, or how far they are from it.
fn follows(values: Vec<f64>, closely: f64, model: impl Fn(f64) -> f64) -> Result<(), String> {
    let (n, distance) = (values.len(), ks_distance(values, model));
    if distance < closely {
        return Ok(());
    }
    Err(format!(
        "{n} values have a KS distance of {distance} from their model, allowed are less than {closely}"
    ))
}

/// The bounds are lenient, since the machine of a test is busy; the schedule itself is tested exactly elsewhere.
#[test]
fn uniform_sends_are_spread_as_the_schedule_says() {
    let server = answering();
    in_time(|| {
        let outcome = run(job(&server.at(), open(400.0, 3_000_000), get()));
        assert_eq!(outcome.records.len(), 1200);
        follows(sent_us(&outcome), 0.02, |us| (us / 3_000_000.0).clamp(0.0, 1.0))?;
        bounded(
            "µs that half of the sends were late",
            outcome.event("done")["self"]["lag_p50_us"].as_u64().unwrap(),
            3000,
        )
    });
}

#[test]
fn poisson_gaps_are_exponential() {
    let server = answering();
    in_time(|| {
        let mut load = open(400.0, 3_000_000);
        load["arrivals"] = "poisson".into();
        let sent = sent_us(&run(job(&server.at(), load, get())));
        let gaps: Vec<_> = sent.windows(2).map(|w| w[1] - w[0]).collect();
        let closely = 1.63 / (gaps.len() as f64).sqrt() + 0.05;
        follows(gaps, closely, |us| 1.0 - (-us * 400.0e-6).exp())
    });
}

#[test]
fn a_bound_in_flight_queues_or_drops() {
    let slow = || {
        Server::answering(|peer, _| {
            std::thread::sleep(Duration::from_millis(100));
            peer.answer(200, "ok");
        })
    };
    let bounded = |full: &str| {
        let server = slow();
        let mut load = open(100.0, 1_000_000);
        load["max_in_flight"] = 4.into();
        load["when_full"] = full.into();
        let mut job = job(&server.at(), load, get());
        job["workloads"][0]["timeout_us"] = 400_000.into();
        let outcome = run(job);
        assert_eq!((outcome.count("due"), outcome.records.len()), (100, 100), "{full}");
        assert_eq!(outcome.findings().iter().filter(|f| **f == "in_flight_bound_reached").count(), 1);
        assert!(server.connections() <= 4);
        outcome
    };
    let queued = bounded("queue");
    assert!(queued.column("wait_us").iter().any(|us| us.unwrap() > 200_000));
    assert!(queued.outcomes().iter().any(|o| o == "not_sent"));
    assert_eq!(queued.count("dropped"), 0);
    let dropped = bounded("drop");
    assert!(dropped.column("wait_us").iter().all(|us| us.unwrap() == 0));
    let unsent = dropped.outcomes().iter().filter(|o| *o == "not_sent").count() as u64;
    assert!(unsent > 40 && unsent == dropped.count("dropped"), "{unsent}");
}

#[test]
fn instances_get_their_share() {
    let servers: Vec<_> = (0..3).map(|_| answering()).collect();
    let shares = |spread: &str, load: Value| -> BTreeMap<String, usize> {
        let mut job = job("127.0.0.1:1", load, get());
        let instance = |(i, s): (usize, &Server)| json!({"name": format!("app-{i}"), "url": format!("http://{}", s.at())});
        job["targets"]["app"]["instances"] = servers.iter().enumerate().map(instance).collect();
        job["spread"] = spread.into();
        let outcome = run(job);
        assert!(outcome.outcomes().iter().all(|o| o == "answered"));
        outcome.records.iter().fold(BTreeMap::new(), |mut shares, r| {
            *shares.entry(text(r, "instance")).or_default() += 1;
            shares
        })
    };
    let round_robin = shares("per-request-round-robin", open(300.0, 1_000_000));
    assert!(round_robin.values().all(|n| *n == 100), "{round_robin:?}");
    let least = shares("least-outstanding", open(300.0, 1_000_000));
    assert!(least.len() == 3 && least.values().all(|n| *n > 50), "{least:?}");
    let mut fresh = closed(60, 20_000_000);
    fresh["session"] = "iteration".into();
    fresh["iterations_per_user"] = 10.into();
    let random = shares("per-connection-random", fresh);
    assert!(random.len() == 3 && random.values().all(|n| (140..260).contains(n)), "{random:?}");
}

#[test]
fn sessions_keep_or_renew_their_connections() {
    let connections = |session: &str| {
        let server = answering();
        let mut load = closed(2, 20_000_000);
        load["session"] = session.into();
        load["iterations_per_user"] = 5.into();
        let steps = json!([{"request": {"name": "a", "path": "/"}}, {"request": {"name": "b", "path": "/"}}]);
        let outcome = run(job(&server.at(), load, steps));
        assert_eq!(outcome.records.len(), 20);
        assert_eq!(outcome.event("done")["stopped_by"], "count");
        assert_eq!(outcome.event("done")["self"]["connections_opened"], server.connections() as u64);
        server.connections()
    };
    assert_eq!((connections("user"), connections("iteration")), (2, 10));
}

/// Ten iterations are over long before the warm-up is: nothing was measured, and the window says so.
#[test]
fn a_run_that_ends_within_its_warmup_has_an_empty_window() {
    let server = answering();
    let mut job = job(&server.at(), times(10), get());
    job["workloads"][0]["warmup_us"] = 2_000_000.into();
    let outcome = run(job);
    assert_eq!((outcome.event("done")["stopped_by"].as_str(), outcome.records.len()), (Some("count"), 10));
    let window = &outcome.event("done")["window"];
    assert_eq!((window["start_us"].as_i64(), window["end_us"].as_i64()), (Some(2_000_000), Some(2_000_000)));
}

#[test]
fn workloads_run_side_by_side() {
    let server = answering();
    let mut job = job(&server.at(), open(100.0, 1_000_000), get());
    let mut second = job["workloads"][0].clone();
    second["name"] = "users".into();
    second["load"] = closed(3, 1_000_000);
    second["journey"] = json!({"think": {"constant_us": 50_000},
        "steps": [{"request": {"name": "slow", "path": "/slow"}}]});
    job["workloads"].as_array_mut().unwrap().push(second);
    let outcome = run(job);
    let of = |name: &str| outcome.records.iter().filter(|r| text(r, "workload") == name).count();
    assert_eq!(of("w"), 100);
    assert!((30..=60).contains(&of("users")), "{}", of("users"));
    assert!(outcome.records.iter().all(|r| (text(r, "workload") == "w") == (text(r, "step") == "get")));
}

/// Known delays are measured as they are: 5 ms, and 50 ms for every tenth.
#[test]
fn measured_percentiles_match_the_script() {
    let server = Server::answering(|peer, request| {
        let slow = request.head.starts_with("GET /slow");
        std::thread::sleep(Duration::from_millis(if slow { 50 } else { 5 }));
        peer.answer(200, "ok");
    });
    let branch = |weight: u32, path: &str| json!({"weight": weight, "steps": [{"request": {"name": path, "path": path}}]});
    let steps = json!([{"choose": [branch(9, "/fast"), branch(1, "/slow")]}]);
    in_time(|| {
        let outcome = run(job(&server.at(), open(200.0, 2_000_000), steps.clone()));
        for (name, least_us) in [("/fast", 5_000), ("/slow", 50_000)] {
            let rows = outcome.records.iter().filter(|r| text(r, "step") == name);
            let mut ttfb: Vec<_> = rows.map(|r| number(r, "ttfb_us").unwrap() as u64).collect();
            ttfb.sort_unstable();
            assert!(ttfb[0] >= least_us, "{name}: never faster than the script");
            // A busy machine adds to it, and sleeps end late.
            bounded(&format!("median µs of {name}"), ttfb[ttfb.len() / 2], least_us + 5_000)?;
        }
        Ok(())
    });
}

/// Two workloads of arrivals without a bound of their own each take what the other has not: together they may meet the bound.
#[test]
fn running_out_of_connections_is_told() {
    let server = Server::answering(|peer, _| {
        std::thread::sleep(Duration::from_millis(200));
        peer.answer(200, "ok");
    });
    let mut job = job(&server.at(), open(200.0, 300_000), get());
    let mut second = job["workloads"][0].clone();
    second["name"] = "second".into();
    second["journey"] = json!({"steps": [{"request": {"name": "other", "path": "/"}}]});
    job["workloads"].as_array_mut().unwrap().push(second);
    job["limits"] = json!({"max_connections": 6});
    let outcome = run(job);
    assert!(outcome.findings().contains(&"out_of_connections"), "{:?}", outcome.findings());
    assert!(outcome.outcomes().iter().any(|o| o == "not_sent"));
    assert_eq!(outcome.count("due"), outcome.count("rows"));
}

/// What is said of less load than was asked for, with its count.
fn less(load: Value) -> (String, f64) {
    let server = Server::answering(|peer, _| {
        std::thread::sleep(Duration::from_millis(50));
        peer.answer(200, "ok");
    });
    let outcome = run(job(&server.at(), load, get()));
    let found = outcome.events.iter().find(|e| e["name"] == "count_not_reached");
    let found = found.unwrap_or_else(|| panic!("silent: {:?}", outcome.events));
    (found["message"].as_str().unwrap().to_owned(), found["value"].as_f64().unwrap())
}

fn with(mut load: Value, more: &[(&str, Value)]) -> Value {
    for (key, value) in more {
        load[*key] = value.clone();
    }
    load
}

#[test]
fn less_load_than_was_asked_for_is_never_silent() {
    let (said, _) = less(with(open(10.0, 500_000), &[("max_arrivals", 1000.into())]));
    assert!(said.ends_with("w: 5 of 1000 arrivals"), "{said}");
    let (said, missing) = less(with(closed(2, 300_000), &[("iterations", 1000.into())]));
    assert!(said.contains(" of 1000 iterations") && (980.0..999.0).contains(&missing), "{said}");
    let (said, _) = less(with(closed(2, 300_000), &[("iterations_per_user", 500.into())]));
    assert!(said.contains(" of 1000 iterations"), "{said}");
    // 4 users x 40/s x 1 s are asked for, and 20/s each is what they can do.
    let (said, missing) = less(with(
        closed(4, 1_000_000),
        &[("max_rate_per_user_per_s", 40.into()), ("catch_up", true.into())],
    ));
    assert!(said.contains("catch_up") && (70.0..160.0).contains(&missing), "{said}");
    let stage = |users: u32, us: u32| json!({"from_users": users, "to_users": users, "duration_us": us});
    let spread = json!({"model": "closed", "stages": [stage(1, 1_000_000), stage(10, 200_000)], "start_spread_us": 1_000_000});
    let (said, missing) = less(spread);
    assert!(said.ends_with("w: 3 of 10 users ever began") && missing as u64 == 7, "{said}");
}

#[test]
fn as_much_as_was_asked_for_needs_no_word() {
    let server = answering();
    let catching_up = [("max_rate_per_user_per_s", 10.into()), ("catch_up", true.into())];
    for load in [
        with(open(100.0, 300_000), &[("max_arrivals", 20.into())]),
        times(5),
        with(closed(3, 5_000_000), &[("iterations_per_user", 2.into())]),
        with(closed(2, 500_000), &catching_up),
        with(closed(5, 300_000), &[("start_spread_us", 200_000.into())]),
    ] {
        let outcome = run(job(&server.at(), load, get()));
        assert!(!outcome.findings().contains(&"count_not_reached"), "{:?}", outcome.events);
    }
}
