//! Parts of load models on the virtual clock: spread starts, catching up, listed arrivals, rotating targets.
use super::*;

fn begins(run: &Run, user: u32) -> Vec<i64> {
    run.rows.iter().filter(|r| r.user == user).map(|r| r.scheduled_us / 1000).collect()
}

#[test]
fn users_that_begin_together_are_spread() {
    let load = with(closed(4, 1000), "start_spread_us", 200_000);
    let run = run(&load, |_, _| (100 * MS, Outcome::Answered));
    let first: Vec<_> = (0..4).map(|user| begins(&run, user)[0]).collect();
    assert_eq!(first, [0, 50, 100, 150]);
    // Each iterates on from there to the end.
    assert_eq!((0..4).map(|user| begins(&run, user).len()).collect::<Vec<_>>(), [10, 10, 9, 9]);
    assert_eq!(run.outcomes(Outcome::Answered), run.rows.len());
}

#[test]
fn a_spawn_rate_is_a_ramp() {
    // 20 users at 10/s, then held for a second, in a journey of 100 ms.
    let stages = json!([
        {"from_users": 0, "to_users": 20, "duration_us": 2_000_000},
        {"from_users": 20, "to_users": 20, "duration_us": 1_000_000},
    ]);
    let run = run(&json!({"model": "closed", "stages": stages}), |_, _| (100 * MS, Outcome::Answered));
    for user in 0..20 {
        assert_eq!(begins(&run, user)[0], i64::from(user) * 100, "user {user}");
    }
    assert_eq!(run.due() as usize, run.rows.len());
}

/// A slow third iteration: with catching up the ones that it delayed follow at once, and count from when they were due.
#[test]
fn what_was_missed_is_caught_up_if_asked() {
    let slow_third = |n, _| (if n == 2 { 230 * MS } else { 10 * MS }, Outcome::Answered);
    for (key, value) in
        [("pacing_us", json!({"constant_us": 50_000})), ("max_rate_per_user_per_s", json!(20.0))]
    {
        let load = with(with(closed(1, 600), key, value), "catch_up", true);
        let run = run(&load, slow_third);
        // Due every 50 ms, whatever the answers take.
        assert_eq!(run.scheduled(), (0..12).map(|k| k * 50).collect::<Vec<_>>(), "{key}");
        let waits: Vec<_> = run.rows.iter().map(|r| r.wait_us / 1000).collect();
        // The third takes from 100 to 330 ms; the fourth was due at 150, and so on, each 40 ms less late.
        assert_eq!(waits, [0, 0, 0, 180, 140, 100, 60, 20, 0, 0, 0, 0], "{key}");
        // It was the user's own time, and none of the instrument's.
        assert!(run.rows.iter().all(|r| r.lag_us == 0), "{key}");
    }
}

#[test]
fn who_cannot_keep_up_still_ends_with_the_schedule() {
    let load = with(with(closed(1, 500), "max_rate_per_user_per_s", 100.0), "catch_up", true);
    let run = run(&load, |_, _| (100 * MS, Outcome::Answered));
    assert_eq!(run.scheduled(), [0, 10, 20, 30, 40]);
    assert_eq!(run.rows.iter().map(|r| r.wait_us / 1000).collect::<Vec<_>>(), [0, 90, 180, 270, 360]);
    assert_eq!(run.worker.rt.now(), START_NS + 500 * MS);
}

#[test]
fn listed_arrivals_come_when_they_are_listed() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("times.txt");
    std::fs::write(&file, "0\n5\n5\n12.5\n# late\n400\n").expect("written");
    let times = json!({"file": file.to_str(), "unit": "ms", "duration_us": 900_000});
    let run = run(&json!({"model": "open", "times": times}), |_, _| (MS, Outcome::Answered));
    let due: Vec<_> = run.rows.iter().map(|r| (r.user, r.scheduled_us, r.lag_us)).collect();
    assert_eq!(due, [(0, 0, 0), (1, 5000, 0), (2, 5000, 0), (3, 12_500, 0), (4, 400_000, 0)]);
}

#[test]
fn every_kind_of_arrival_is_sent_when_it_is_due() {
    let wave = json!([{"mean_per_s": 200, "amplitude_per_s": 200, "period_us": 700_000, "duration_us": 3_000_000},
        {"from_per_s": 0, "to_per_s": 300, "duration_us": 2_000_000}]);
    for arrivals in ["uniform", "poisson", "scattered"] {
        let load = json!({"model": "open", "arrivals": arrivals, "stages": wave});
        let made = run(&load, |_, _| (7 * MS, Outcome::Answered));
        let again = run(&load, |_, _| (7 * MS, Outcome::Answered));
        assert_eq!(made.scheduled(), again.scheduled(), "{arrivals}");
        assert_eq!(made.due() as usize, made.rows.len());
        assert!(made.rows.iter().all(|r| r.lag_us == 0 && r.wait_us == 0), "{arrivals}");
        if arrivals != "poisson" {
            assert_eq!(made.rows.len(), 928, "600, 27.2 of the part of a wave, and 300: {arrivals}");
        }
    }
}

/// A cold-start probe: arrivals take the targets in turn; so do iterations of a user.
#[test]
fn requests_go_to_each_target_in_turn() {
    let probe = |load: Value| {
        let mut job = job(&load, &one_step());
        for (name, port) in [("b", 2), ("c", 3)] {
            let url = format!("http://127.0.0.1:{port}");
            job["targets"][name] = json!({"instances": [{"name": format!("{name}-0"), "url": url}]});
        }
        job["workloads"][0]["rotate"] = json!(["c", "app", "b"]);
        run_job(&job, |_, _| (MS, Outcome::Answered))
    };
    let arrivals = probe(open(10, 1));
    // Targets are numbered in the order of the job, which is that of their names.
    assert_eq!(arrivals.rows.iter().map(|r| r.target).collect::<Vec<_>>(), [2, 0, 1, 2, 0, 1, 2, 0, 1, 2]);
    let users = probe(with(closed(2, 10_000), "iterations_per_user", 4));
    for user in 0..2 {
        let targets: Vec<_> = users.rows.iter().filter(|r| r.user == user).map(|r| r.target).collect();
        assert_eq!(targets, [2, 0, 1, 2], "user {user}");
    }
    // What is never sent has its target all the same.
    let full = with(with(open(10, 1), "max_in_flight", 1), "when_full", "drop");
    let mut job = job(&full, &one_step());
    job["targets"]["b"] = json!({"instances": [{"name": "b-0", "url": "http://127.0.0.1:2"}]});
    job["workloads"][0]["rotate"] = json!(["b", "app"]);
    let dropped = run_job(&job, |_, _| (950 * MS, Outcome::Answered));
    assert_eq!(dropped.outcomes(Outcome::NotSent), 9);
    assert!(dropped.rows.iter().all(|r| u32::from(r.target) == (r.user + 1) % 2));
}
