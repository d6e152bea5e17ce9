//! Limits: in force where the machine permits them, named where not.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod guard_support;

use guard_support::{Guard, wait_for_text};
use serde_json::json;
use std::time::{Duration, Instant};

/// The limit must be in force for the test to mean something; says so when it is not.
fn is_applied(spawned: &serde_json::Value, limit: &str) -> bool {
    let state = &spawned["limits"][limit];
    if state != "applied" {
        println!("NOT RUN: {limit} limits cannot be set here: {state}");
    }
    state == "applied"
}

#[test]
fn a_cpu_limit_limits() {
    let mut guard = Guard::start();
    // Two spinning processes: the limit is of the instance, not of a process.
    let mut command = guard.shell("a", "(while :; do :; done) & echo up > up; while :; do :; done");
    command["cpu_cores"] = json!(0.2);
    let spawned = guard.spawn(&command);
    if !is_applied(&spawned, "cpu") {
        return;
    }
    wait_for_text(&guard.path("up"));
    let usage_ns = || {
        let directories = spawned["cgroup"].as_array().unwrap();
        directories.iter().find_map(|dir| {
            let dir = std::path::Path::new(dir.as_str().unwrap());
            let v1 = std::fs::read_to_string(dir.join("cpuacct.usage"))
                .ok()
                .map(|text| text.trim().parse().unwrap());
            let v2 = || {
                let text = std::fs::read_to_string(dir.join("cpu.stat")).ok()?;
                let us: u64 = text.lines().find_map(|l| l.strip_prefix("usage_usec "))?.parse().ok()?;
                Some(us * 1000)
            };
            v1.or_else(v2)
        })
    };
    let (before, start): (u64, _) = (usage_ns().unwrap(), Instant::now());
    std::thread::sleep(Duration::from_millis(1500));
    let cores = (usage_ns().unwrap() - before) as f64 / start.elapsed().as_nanos() as f64;
    println!("cpu_cores 0.2: used {cores:.3}");
    assert!(cores < 0.26, "{cores}");
    guard.send(&json!({"cmd": "status"}));
    let status = guard.event("status");
    assert!(status["instances"]["a"]["throttled_s"].as_f64().unwrap() > 0.3, "{status}");
    guard.send(&json!({"cmd": "stop", "id": "a"}));
    assert!(guard.event("exited")["throttled_s"].as_f64().unwrap() > 0.3);
}

#[test]
fn a_memory_limit_kills_and_is_told() {
    let mut guard = Guard::start();
    // tail keeps a line of 300 MB in memory.
    let mut command = guard.shell("a", "head -c 300000000 /dev/zero | tail -n 1 > out");
    command["memory_bytes"] = json!(32 << 20);
    let spawned = guard.spawn(&command);
    if !is_applied(&spawned, "memory") {
        return;
    }
    let exited = guard.event("exited");
    assert_eq!(exited["oom_killed"], true, "{exited}");
    guard.send(&json!({"cmd": "status"}));
    assert!(guard.event("status")["instances"]["a"]["oom_kills"].as_u64().unwrap() >= 1);

    // A new instance of the same id starts with its own counters.
    guard.spawn_shell("a", "true");
    assert_eq!(guard.event("exited")["oom_killed"], false);
}

#[test]
fn limits_hold_from_the_first_instruction() {
    let mut guard = Guard::start();
    let mut command = guard.shell("a", "");
    command["argv"] = json!(["cat", "/proc/self/cgroup", "/proc/self/status"]);
    command["cpus"] = json!([0]);
    command["nice"] = json!(5);
    let spawned = guard.spawn(&command);
    guard.event("exited");
    let log = guard.log_text("a");
    if is_applied(&spawned, "cpus") {
        assert!(log.contains("Cpus_allowed_list:\t0\n"), "{log}");
    }
    assert_eq!(spawned["limits"]["nice"], "applied");
    // An instance starts clean: with what we were started with; SIGPIPE apart, which Rust programs ignore, and the two
    // signals of the C library's own that posix_spawn leaves ignored.
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let not_ours = !(1 << 12 | 1 << 31 | 1 << 32);
    assert_eq!(signal_set(&log, "SigIgn") & !(1 << 31 | 1 << 32), signal_set(&own, "SigIgn") & not_ours);
    assert_eq!(signal_set(&log, "SigBlk"), 0);
    let groups = spawned["cgroup"].as_array().unwrap().len();
    let inside = format!("/{}/a", guard.cgroup.clone().unwrap());
    assert_eq!(log.lines().filter(|line| line.ends_with(&inside)).count(), groups, "{log}");
}

fn signal_set(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
    u64::from_str_radix(line.unwrap(), 16).unwrap()
}

#[test]
fn nice_is_absolute() {
    let mut guard = Guard::start();
    let mut command = guard.shell("a", "nice");
    command["nice"] = json!(7);
    guard.spawn(&command);
    guard.event("exited");
    assert_eq!(guard.log_text("a"), "7\n");
}

#[test]
fn what_is_not_permitted_is_said_and_the_instance_runs_without() {
    let mut guard = Guard::start_with(None);
    let mut command = guard.shell("a", "true");
    command["cpu_cores"] = json!(0.5);
    command["memory_bytes"] = json!(1 << 20);
    command["cpus"] = json!([1000]);
    let spawned = guard.spawn(&command);
    assert_eq!(spawned["limits"]["cpu"], "not applied: no cpu cgroup");
    assert_eq!(spawned["limits"]["memory"], "not applied: no memory cgroup");
    assert!(spawned["limits"]["cpus"].as_str().unwrap().starts_with("not applied: "), "{spawned}");
    assert_eq!(spawned["limits"]["nice"], json!(null));
    let exited = guard.event("exited");
    assert_eq!((&exited["code"], &exited["throttled_s"]), (&json!(0), &json!(null)));
}

#[test]
fn without_any_right_it_still_runs_and_ends_all() {
    let Some(mut guard) = Guard::start_as_nobody() else {
        println!(
            "NOT RUN: the engine cannot be started as nobody here (needs root, setpriv and a readable build)"
        );
        return;
    };
    assert_eq!(guard.ready["cgroup"], "none");
    assert!(guard.ready["note"].as_str().unwrap().contains("denied"), "{}", guard.ready);
    let mut command = guard.shell("a", "(setsid sleep 100 &); nice; sleep 100");
    command["nice"] = json!(-5);
    command["cpu_cores"] = json!(0.5);
    let spawned = guard.spawn(&command);
    assert!(spawned["limits"]["nice"].as_str().unwrap().contains("ermission denied"), "{spawned}");
    assert_eq!(spawned["limits"]["cpu"], "not applied: no cpu cgroup");
    assert_eq!(guard.end(), Some(0));
    assert!(guard_support::carriers(&guard.token).is_empty());
}
