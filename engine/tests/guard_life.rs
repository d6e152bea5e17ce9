//! Instances from start to end: exits, stops, descendants, output, the end of the guard.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod guard_support;

use guard_support::{Guard, SOON, carriers, engine, is_alive, wait_for_text, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A process that left session and process group, whose parent is gone, and that ignores SIGTERM.
const DAEMON: &str = r#"(setsid sh -c 'trap "" TERM; echo $$ > daemon.pid; while :; do sleep 1; done' &)"#;

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap()
}

fn pid_of(event: &serde_json::Value) -> i32 {
    i32::try_from(event["pid"].as_i64().unwrap()).unwrap()
}

#[test]
fn an_exit_is_told_with_code_time_and_output() {
    let mut guard = Guard::start();
    let before = now_ns();
    guard.spawn_shell("a", "echo out; echo err >&2; echo $TOWTANK_TOKEN; exit 3");
    let exited = guard.event("exited");
    let t_ns = exited["t_ns"].as_u64().unwrap();
    assert!(before < t_ns && t_ns < now_ns());
    assert_eq!(
        (&exited["code"], &exited["signal"], &exited["expected"]),
        (&json!(3), &json!(null), &json!(false))
    );
    assert_eq!(guard.log_text("a"), format!("out\nerr\n{}\n", guard.token));
    assert_eq!(exited["log_bytes"], exited["log_kept_bytes"]);
    assert_eq!(guard.end(), Some(0));
    guard.event("bye");
    assert!(guard.cgroups_left().is_empty());
}

#[test]
fn output_is_noted_with_its_times_over_two_lives() {
    let mut guard = Guard::start();
    let noted = |guard: &Guard| -> Vec<Vec<u64>> {
        let text = std::fs::read_to_string(guard.path("logs/a.log.times")).unwrap();
        text.lines().map(|line| line.split(' ').map(|word| word.parse().unwrap()).collect()).collect()
    };
    let before = now_ns();
    guard.spawn_shell("a", "echo one; sleep 1; echo two; echo three");
    guard.event("exited");
    let seen = noted(&guard);
    let (first, last) = (&seen[0], seen.last().unwrap());
    assert_eq!((&first[1..], &last[1..]), (&[4, 1][..], &[14, 3][..]), "{seen:?}");
    assert!(before < first[0] && first[0] + 500_000_000 < last[0] && last[0] < now_ns(), "{seen:?}");
    guard.spawn_shell("a", "echo again");
    guard.event("exited");
    assert_eq!(&noted(&guard).last().unwrap()[1..], &[20, 4], "bytes and lines go on");
}

#[test]
fn a_signal_that_ends_an_instance_is_told() {
    let mut guard = Guard::start();
    let pid = pid_of(&guard.spawn_shell("a", "exec sleep 100"));
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    let exited = guard.event("exited");
    assert_eq!(
        (&exited["code"], &exited["signal"], &exited["expected"]),
        (&json!(null), &json!(9), &json!(false))
    );
}

#[test]
fn a_stop_gives_grace_and_a_second_life_is_possible() {
    let mut guard = Guard::start();
    for round in 0..2 {
        guard.spawn_shell("a", "trap 'echo bye; exit 0' TERM; echo up > up; while :; do sleep 0.02; done");
        wait_for_text(&guard.path("up"));
        guard.send(&json!({"cmd": "stop", "id": "a", "signal": "TERM", "grace_ms": 10000}));
        let exited = guard.event("exited");
        assert_eq!((&exited["code"], &exited["expected"]), (&json!(0), &json!(true)));
        assert_eq!(guard.log_text("a").matches("bye").count(), round + 1, "the log is appended to");
        std::fs::remove_file(guard.path("up")).unwrap();
    }
}

#[test]
fn who_ignores_the_signal_is_killed_after_the_grace() {
    let mut guard = Guard::start();
    guard.spawn_shell("a", "trap '' TERM; echo up > up; while :; do sleep 0.02; done");
    wait_for_text(&guard.path("up"));
    let start = Instant::now();
    guard.send(&json!({"cmd": "stop", "id": "a", "grace_ms": 400}));
    let exited = guard.event("exited");
    assert!(start.elapsed() >= Duration::from_millis(400));
    assert_eq!((&exited["signal"], &exited["expected"]), (&json!(9), &json!(true)));
}

#[test]
fn what_the_first_process_leaves_has_the_rest_of_the_grace() {
    let mut guard = Guard::start();
    let script =
        "(trap 'sleep 0.3; echo done; exit' TERM; echo up > up; while :; do sleep 0.02; done) & wait";
    guard.spawn_shell("a", script);
    wait_for_text(&guard.path("up"));
    guard.send(&json!({"cmd": "stop", "id": "a", "grace_ms": 10000}));
    let exited = guard.event("exited");
    assert_eq!(exited["descendants_killed"], 0);
    assert!(guard.log_text("a").ends_with("done\n"));
}

#[test]
fn a_stopped_process_can_be_ended() {
    let mut guard = Guard::start();
    let pid = pid_of(&guard.spawn_shell("a", "trap 'exit 7' TERM; sleep 100 & echo up > up; wait"));
    wait_for_text(&guard.path("up"));
    guard.send(&json!({"cmd": "signal", "id": "a", "signal": "STOP"}));
    let state = || towtank_engine::guard::process::Stat::of(pid).map(|stat| stat.state);
    wait_until("the stop", || (state() == Some('T')).then_some(()));
    // The sleep may lose the signal if it comes between fork and exec, where it still has the shell's trap: a short grace.
    guard.send(&json!({"cmd": "stop", "id": "a", "grace_ms": 2000}));
    assert_eq!(guard.event("exited")["code"], 7);
}

#[test]
fn a_daemon_does_not_outlive_its_instance() {
    for cgroup in [true, false] {
        let mut guard = if cgroup { Guard::start() } else { Guard::start_with(None) };
        guard.spawn_shell("a", &format!("{DAEMON}; while [ ! -s daemon.pid ]; do sleep 0.02; done; exit 0"));
        let exited = guard.event("exited");
        let daemon: i32 = wait_for_text(&guard.path("daemon.pid")).parse().unwrap();
        assert!(!is_alive(daemon), "cgroup: {cgroup}");
        assert!(exited["descendants_killed"].as_u64().unwrap() >= 1, "{exited}");
        assert!(carriers(&guard.token).is_empty());
    }
}

#[test]
fn a_daemon_with_an_empty_environment_does_not_outlive_the_guard() {
    for cgroup in [true, false] {
        let mut guard = if cgroup { Guard::start() } else { Guard::start_with(None) };
        let script = DAEMON.replace("setsid", "env -i PATH=/usr/bin:/bin setsid");
        guard.spawn_shell("a", &format!("{script}; sleep 100"));
        let daemon: i32 = wait_for_text(&guard.path("daemon.pid")).parse().unwrap();
        assert!(is_alive(daemon));
        assert_eq!(guard.end(), Some(0));
        assert!(!is_alive(daemon), "cgroup: {cgroup}");
    }
}

#[test]
fn processes_that_keep_forking_are_caught() {
    // Each process starts its successor and ends: pids that are read are old when they are signalled. It ends by itself
    // after 20000 hops.
    let hop = "trap '' TERM; [ $1 -gt 0 ] || exit; setsid sh hop.sh $(($1 - 1)) & exit";
    for cgroup in [true, false] {
        let mut guard = if cgroup { Guard::start() } else { Guard::start_with(None) };
        std::fs::write(guard.path("hop.sh"), hop).unwrap();
        guard.spawn_shell("a", "for i in 1 2 3 4; do sh hop.sh 20000 & done; echo up > up; sleep 100");
        wait_for_text(&guard.path("up"));
        std::thread::sleep(Duration::from_millis(200));
        let start = Instant::now();
        guard.send(&json!({"cmd": "stop", "id": "a", "grace_ms": 100}));
        guard.event("exited");
        println!("forking chains ended after {:?}, cgroup: {cgroup}", start.elapsed());
        assert!(carriers(&guard.token).is_empty(), "cgroup: {cgroup}");
    }
}

#[test]
fn a_flood_of_output_is_counted_and_cut() {
    let mut guard = Guard::start();
    let mut command = guard.shell("a", "yes 123456789 | head -c 40000000");
    command["log_limit_bytes"] = json!(100_005);
    guard.spawn(&command);
    let exited = guard.event("exited");
    assert_eq!((&exited["log_bytes"], &exited["log_kept_bytes"]), (&json!(40_000_000), &json!(100_005)));
    let times = std::fs::read_to_string(guard.path("logs/a.log.times")).unwrap();
    assert!(times.ends_with(" 40000000 10000\n"), "what was cut is counted, too: {:?}", times.lines().last());
    let log = guard.log_text("a");
    let last = "12345\n[towtank: 39899995 more bytes of output were cut at 100005 bytes]\n";
    assert!(log.ends_with(last), "{:?}", &log[100_000..]);
}

#[test]
fn the_end_of_stdin_ends_all_at_once() {
    let mut guard = Guard::start();
    for i in 0..4 {
        let script = format!("trap '' TERM; echo up > up{i}; while :; do sleep 0.02; done");
        let mut command = guard.shell(&format!("app-{i}"), &script);
        command["grace_ms"] = json!(2000);
        guard.spawn(&command);
        wait_for_text(&guard.path(&format!("up{i}")));
    }
    let start = Instant::now();
    assert_eq!(guard.end(), Some(0));
    let took = start.elapsed();
    // One after the other would be 8 s; what is between is for a machine that is busy.
    assert!(took >= Duration::from_secs(2) && took < Duration::from_secs(7), "{took:?}");
    for _ in 0..4 {
        assert_eq!(guard.event("exited")["expected"], true);
    }
    guard.event("bye");
    assert!(carriers(&guard.token).is_empty() && guard.cgroups_left().is_empty());
}

#[test]
fn signals_end_it_orderly_and_the_second_one_at_once() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut guard = Guard::start();
        let mut command = guard.shell("a", "trap '' TERM; echo up > up; while :; do sleep 0.02; done");
        command["grace_ms"] = json!(60_000);
        guard.spawn(&command);
        wait_for_text(&guard.path("up"));
        let pid = Pid::from_child(&guard.child);
        kill_process(pid, signal).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        assert!(guard.child.try_wait().unwrap().is_none(), "the instance has its grace");
        kill_process(pid, signal).unwrap();
        assert_eq!(guard.event("exited")["signal"], 9);
        guard.event("bye");
        assert_eq!(guard.child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn ctrl_c_in_the_terminal_of_towtank_does_not_reach_it() {
    let mut guard = Guard::start();
    let instance = pid_of(&guard.spawn_shell("a", "exec sleep 100"));
    let session = |pid| towtank_engine::guard::process::Stat::of(pid).unwrap().session;
    let guard_pid = guard.child.id().cast_signed();
    assert_eq!((session(guard_pid), session(instance)), (guard_pid, instance));
}

#[test]
fn a_reader_that_is_gone_does_not_keep_it_from_its_work() {
    let token = guard_support::unique("t");
    let mut child =
        engine(&["guard", "--token", &token]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let dir = tempfile::tempdir().unwrap();
    let spawn = json!({"cmd": "spawn", "id": "a", "argv": ["/bin/sleep", "100"], "cwd": dir.path(), "log": dir.path().join("a")});
    {
        use std::io::Write;
        let mut stdin = child.stdin.take().unwrap();
        writeln!(stdin, "{spawn}").unwrap();
        wait_until("the instance", || (!carriers(&token).is_empty()).then_some(()));
    }
    assert!(child.wait().unwrap().success());
    assert!(carriers(&token).is_empty());
}

#[test]
fn what_cannot_be_done_is_said() {
    let mut guard = Guard::start();
    let failure = |guard: &mut Guard, key: &str, value: serde_json::Value| {
        let mut command = guard.shell("a", "sleep 100");
        command[key] = value;
        guard.send(&command);
        guard.event("spawn_failed")["message"].as_str().unwrap().to_owned()
    };
    assert!(
        failure(&mut guard, "argv", json!(["no-such-program"])).contains("\"no-such-program\": No such file")
    );
    assert!(failure(&mut guard, "argv", json!(["/etc/passwd"])).contains("Permission denied"));
    assert!(failure(&mut guard, "argv", json!([])).contains("argv is empty"));
    assert!(
        failure(&mut guard, "cwd", json!("/no/such/folder")).contains("/no/such/folder: no such directory")
    );
    assert!(failure(&mut guard, "log", json!("/proc/x/y")).contains("/proc/x"));
    assert!(failure(&mut guard, "id", json!("../a")).contains("letters"));
    guard.spawn_shell("a", "sleep 100");
    assert!(failure(&mut guard, "nice", json!(0)).contains("running"));
    guard.send(&json!({"cmd": "stop", "id": "b"}));
    assert!(guard.event("error")["message"].as_str().unwrap().contains("\"b\""));
    guard.send(&json!({"cmd": "sing"}));
    assert!(guard.event("error")["message"].as_str().unwrap().contains("`spawn`, `stop`"));
    guard.send(&json!({"cmd": "status"}));
    assert_eq!(guard.event("status")["instances"]["a"]["running"], true);
}

#[test]
fn an_idle_guard_uses_no_cpu() {
    let mut guard = Guard::start();
    guard.spawn_shell("a", "exec sleep 100");
    let ticks = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<u64> = stat
            .rsplit(") ")
            .next()
            .unwrap()
            .split(' ')
            .skip(11)
            .take(2)
            .map(|f| f.parse().unwrap())
            .collect();
        let switches = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let switches: u64 = switches
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))
            .map(|n| n.trim().parse().unwrap())
            .unwrap();
        (fields[0] + fields[1], switches)
    };
    std::thread::sleep(Duration::from_millis(200));
    let before = ticks(guard.child.id());
    std::thread::sleep(Duration::from_secs(1));
    let after = ticks(guard.child.id());
    assert!(after.0 - before.0 <= 1, "{before:?} {after:?}");
    assert_eq!(after.1, before.1, "it must sleep through");
    assert!(SOON > Duration::ZERO);
}
