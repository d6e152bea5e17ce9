//! The engine as a process: orders on stdin, events on stdout, exit codes.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod load_support;

use load_support::patience::in_time;
use load_support::server::Server;
use load_support::{closed, get, job, open, parse_events, read, write_job};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

fn engine() -> Command {
    Command::new(env!("CARGO_BIN_EXE_towtank-engine"))
}

fn start(job: &Path) -> Child {
    engine().arg("run").arg(job).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Reads events up to one of a kind.
fn await_event(reader: &mut impl BufRead, kind: &str) -> Value {
    for line in reader.lines() {
        let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if event["event"] == kind {
            return event;
        }
    }
    panic!("no {kind}");
}

fn answering() -> Server {
    Server::answering(|peer, _| peer.answer(200, "ok"))
}

/// Starts a run of a minute and ends it in some way after its first second.
fn ended(end: impl Fn(&mut Child)) -> (Value, ExitStatus, usize) {
    let (server, dir) = (answering(), tempfile::tempdir().unwrap());
    let job = write_job(dir.path(), job(&server.at(), open(200.0, 60_000_000), get()));
    let mut child = start(&job);
    let mut events = BufReader::new(child.stdout.take().unwrap());
    let ready = await_event(&mut events, "ready");
    assert_eq!((ready["due"].as_u64(), ready["backend"].as_str()), (Some(12_000), Some("epoll")));
    child.stdin.as_mut().unwrap().write_all(b"{\"start_at_ns\": null}\n").unwrap();
    await_event(&mut events, "progress");
    end(&mut child);
    let done = await_event(&mut events, "done");
    let status = child.wait().unwrap();
    (done, status, read(&dir.path().join("requests.parquet")).len())
}

#[test]
fn the_end_of_stdin_stops_the_run_and_keeps_everything() {
    let (done, status, rows) = ended(|child| drop(child.stdin.take()));
    assert!(status.success());
    assert_eq!(done["stopped_by"], "eof");
    assert_eq!(
        (done["counts"]["rows"].as_u64(), done["counts"]["due"].as_u64()),
        (Some(rows as u64), Some(rows as u64))
    );
    assert!((150..2000).contains(&rows), "{rows}");
}

#[test]
fn an_order_stops_the_run() {
    let (done, status, rows) = ended(|child| {
        child.stdin.as_mut().unwrap().write_all(b"{\"stop\": true}\n").unwrap();
    });
    assert!(status.success());
    assert_eq!(
        (done["stopped_by"].as_str(), done["files"][0]["rows"].as_u64()),
        (Some("stop"), Some(rows as u64))
    );
}

#[test]
fn a_signal_stops_the_run() {
    let signal = |signal| {
        move |child: &mut Child| {
            let pid = rustix::process::Pid::from_child(child);
            rustix::process::kill_process(pid, signal).unwrap();
        }
    };
    // The terminal that has gone is no reason to lose anything either.
    for asked in [rustix::process::Signal::TERM, rustix::process::Signal::HUP] {
        let (done, status, rows) = ended(signal(asked));
        assert!(status.success(), "{asked:?}: {status}");
        assert_eq!(
            (done["stopped_by"].as_str(), done["counts"]["rows"].as_u64()),
            (Some("stop"), Some(rows as u64))
        );
    }
    // Ctrl-C is the business of whoever holds the lifeline.
    let (done, _, _) = ended(|child| {
        signal(rustix::process::Signal::INT)(child);
        std::thread::sleep(std::time::Duration::from_millis(200));
        drop(child.stdin.take());
    });
    assert_eq!(done["stopped_by"], "eof");
}

#[test]
fn the_records_of_an_earlier_run_are_never_those_of_this_one() {
    let (server, dir) = (answering(), tempfile::tempdir().unwrap());
    let path = write_job(dir.path(), job(&server.at(), open(200.0, 100_000), get()));
    let run = || engine().args(["run", "--no-lifeline"]).arg(&path).output().unwrap();
    assert!(run().status.success());
    let before = read(&dir.path().join("requests.parquet")).len();
    let check = engine().arg("check").arg(&path).output().unwrap();
    for refused in [check, run()] {
        assert_eq!(refused.status.code(), Some(3));
        let error = &parse_events(&refused.stdout)[0];
        assert_eq!((error["event"].as_str(), error["path"].as_str()), (Some("error"), Some("$.output")));
        assert!(error["message"].as_str().unwrap().contains("requests.parquet"), "{error}");
    }
    assert!(!dir.path().join("requests").exists(), "nothing was begun");
    assert_eq!(read(&dir.path().join("requests.parquet")).len(), before);
}

#[test]
fn records_that_cannot_be_put_together_are_a_failure() {
    let (server, dir) = (answering(), tempfile::tempdir().unwrap());
    let path = write_job(dir.path(), job(&server.at(), open(100.0, 1_500_000), get()));
    let mut child = start(&path);
    let mut events = BufReader::new(child.stdout.take().unwrap());
    child.stdin.as_mut().unwrap().write_all(b"{\"start_at_ns\": null}\n").unwrap();
    await_event(&mut events, "progress");
    // Comes while the load runs: no check before the start can see it.
    std::fs::write(dir.path().join("requests.parquet"), "something else").unwrap();
    let mut rest = String::new();
    events.read_to_string(&mut rest).unwrap();
    let rest = parse_events(rest.as_bytes());
    assert!(rest.iter().any(|e| e["name"] == "compact_failed"), "{rest:?}");
    assert_eq!(rest.last().unwrap()["event"], "done");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(dir.path().join("requests").join("thread-0.log").exists(), "what was measured is still there");
}

#[test]
fn a_killed_run_leaves_what_it_wrote() {
    let (server, dir) = (answering(), tempfile::tempdir().unwrap());
    let job = write_job(dir.path(), job(&server.at(), open(200.0, 60_000_000), get()));
    let mut child = start(&job);
    let mut events = BufReader::new(child.stdout.take().unwrap());
    child.stdin.as_mut().unwrap().write_all(b"{\"start_at_ns\": null}\n").unwrap();
    await_event(&mut events, "progress");
    let progress = await_event(&mut events, "progress");
    child.kill().unwrap();
    child.wait().unwrap();
    let (requests, out) = (dir.path().join("requests"), dir.path().join("requests.parquet"));
    let compact = engine().arg("compact").args([&requests, &out]).status().unwrap();
    assert!(compact.success());
    let (kept, sent) = (read(&out).len() as u64, progress["done"].as_u64().unwrap());
    // At most what half a second, the bound of the log, and a second, the reach of the progress, can hold.
    assert!(kept + 200 > sent, "{kept} of {sent}");
}

#[test]
fn running_out_of_descriptors_loses_no_arrival() {
    let server = Server::answering(|peer, _| {
        std::thread::sleep(std::time::Duration::from_millis(300));
        peer.answer(200, "ok");
    });
    let dir = tempfile::tempdir().unwrap();
    let job = write_job(dir.path(), job(&server.at(), open(200.0, 1_000_000), get()));
    // The engine raises its limit as far as it may: not at all.
    let script = "ulimit -n 24 && exec \"$0\" run --no-lifeline \"$1\"";
    let output = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_towtank-engine")])
        .arg(&job)
        .output()
        .unwrap();
    let events = parse_events(&output.stdout);
    let counts = &events.last().unwrap()["counts"];
    assert_eq!((counts["due"].as_u64(), counts["rows"].as_u64()), (Some(200), Some(200)));
    assert!(counts["by_outcome"]["not_sent"].as_u64().unwrap() > 50, "{counts}");
    assert!(events.iter().any(|e| e["name"] == "out_of_descriptors"));
}

#[test]
fn a_lifeline_that_ends_before_the_start_ends_the_run() {
    let (server, dir) = (answering(), tempfile::tempdir().unwrap());
    let job = write_job(dir.path(), job(&server.at(), open(200.0, 60_000_000), get()));
    let output = engine().arg("run").arg(job).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success());
    let events = parse_events(&output.stdout);
    let done = events.last().unwrap();
    assert_eq!((done["event"].as_str(), done["stopped_by"].as_str()), (Some("done"), Some("eof")));
    assert!(events.iter().all(|e| e["event"] != "started"));
    assert_eq!(server.connections(), 0);
}

#[test]
fn a_start_in_the_future_is_kept() {
    let (server, dir) = (answering(), tempfile::tempdir().unwrap());
    let job = write_job(dir.path(), job(&server.at(), open(100.0, 300_000), get()));
    let mut child = start(&job);
    let mut events = BufReader::new(child.stdout.take().unwrap());
    await_event(&mut events, "ready");
    let at_ns = towtank_engine::transport::reactor::monotonic_ns() + 1_500_000_000;
    let order = format!("{{\"start_at_ns\": {at_ns}}}\n");
    child.stdin.as_mut().unwrap().write_all(order.as_bytes()).unwrap();
    assert_eq!(await_event(&mut events, "started")["start_ns"], at_ns);
    assert_eq!(server.connections(), 0);
    let done = await_event(&mut events, "done");
    assert!(child.wait().unwrap().success());
    assert_eq!(done["counts"]["rows"], 30);
    assert_eq!(done["window"]["end_us"], 300_000);
}

/// As nohup does it: whoever asked that a hangup be ignored has it ignored.
#[test]
fn a_hangup_that_is_ignored_stays_ignored() {
    let (server, dir) = (answering(), tempfile::tempdir().unwrap());
    let job = write_job(dir.path(), job(&server.at(), open(100.0, 600_000), get()));
    let script = "trap '' HUP && exec \"$0\" run --no-lifeline \"$1\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_towtank-engine")]).arg(&job).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut events = BufReader::new(child.stdout.take().unwrap());
    await_event(&mut events, "started");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    let done = await_event(&mut events, "done");
    assert!(child.wait().unwrap().success());
    assert_eq!((done["stopped_by"].as_str(), done["counts"]["rows"].as_u64()), (Some("schedule"), Some(60)));
}

/// Lag is in the rows and a finding; what would be more than that is no load at all, and said.
#[test]
fn a_start_in_the_past_is_refused() {
    let ordered = |ago_ns: u64| {
        let (server, dir) = (answering(), tempfile::tempdir().unwrap());
        let job = write_job(dir.path(), job(&server.at(), open(100.0, 500_000), get()));
        let mut child = start(&job);
        let mut events = BufReader::new(child.stdout.take().unwrap());
        await_event(&mut events, "ready");
        let at_ns = towtank_engine::transport::reactor::monotonic_ns() - ago_ns;
        child
            .stdin
            .as_mut()
            .unwrap()
            .write_all(format!("{{\"start_at_ns\": {at_ns}}}\n").as_bytes())
            .unwrap();
        let mut rest = String::new();
        events.read_to_string(&mut rest).unwrap();
        (parse_events(rest.as_bytes()), child.wait().unwrap(), server.connections())
    };
    let (events, status, connections) = ordered(2_000_000_000);
    let error = events.iter().find(|e| e["event"] == "error").unwrap()["message"].as_str().unwrap();
    assert!(error.contains("s ago on the monotonic clock, allowed are 0.25 s"), "{error}");
    let done = events.last().unwrap();
    assert_eq!((done["stopped_by"].as_str(), done["counts"]["rows"].as_u64()), (Some("error"), Some(0)));
    assert_eq!((status.code(), connections), (Some(1), 0));
    assert!(events.iter().all(|e| e["event"] != "started"));
    in_time(|| {
        let (events, status, _) = ordered(20_000_000);
        if !status.success() {
            return Err(format!("the order came late: {events:?}"));
        }
        assert_eq!(events.last().unwrap()["counts"]["rows"], 50);
        Ok(())
    });
}

#[test]
fn by_hand_no_lifeline_is_needed() {
    let (server, dir) = (answering(), tempfile::tempdir().unwrap());
    let mut load = closed(2, 20_000_000);
    load["iterations"] = 10.into();
    let job = write_job(dir.path(), job(&server.at(), load, get()));
    let output = engine().args(["run", "--no-lifeline"]).arg(&job).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success());
    let done = parse_events(&output.stdout).pop().unwrap();
    assert_eq!((done["stopped_by"].as_str(), done["counts"]["rows"].as_u64()), (Some("count"), Some(10)));
    let own = &done["self"];
    for key in [
        "lag_p50_us",
        "lag_p99_us",
        "lag_p999_us",
        "lag_max_us",
        "wake_late_max_us",
        "stalled_ratio",
        "not_sent",
        "cpu_user_s",
        "cpu_system_s",
        "spun_s",
        "cpu_cores_mean",
        "cpu_cores_max_1s",
        "run_queue_wait_ratio",
        "run_queue_wait_max_ms_1s",
        "max_rss_bytes",
        "involuntary_switches",
        "wall_s",
        "compact_s",
        "compact_cpu_s",
        "record_bytes_log",
        "record_bytes_parquet",
        "in_flight_max",
        "connections_opened",
    ] {
        assert!(own[key].is_number(), "{key}");
    }
}

#[test]
fn a_wrong_job_says_all_that_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let mut wrong = job("127.0.0.1:1", closed(0, 0), get());
    wrong["sede"] = 1.into();
    wrong["workloads"][0]["load"]["model"] = "clsed".into();
    wrong["workloads"][0]["journey"]["steps"][0]["request"]["path"] = "/{{ usr }}".into();
    let path = write_job(dir.path(), wrong);
    for command in ["check", "run"] {
        let output = engine().arg(command).arg(&path).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(3));
        let events = parse_events(&output.stdout);
        let paths: Vec<_> = events.iter().map(|e| e["path"].as_str().unwrap()).collect();
        assert!(events.iter().all(|e| e["event"] == "error") && paths.contains(&"$.sede"), "{paths:?}");
        assert!(paths.contains(&"$.workloads[0].load.model"), "{paths:?}");
    }
    let missing = engine().arg("check").arg(dir.path().join("none.json")).output().unwrap();
    assert_eq!(missing.status.code(), Some(3));
}

#[test]
fn a_good_job_is_checked_without_a_trace() {
    let dir = tempfile::tempdir().unwrap();
    let path = write_job(dir.path(), job("127.0.0.1:1", open(50.0, 2_000_000), get()));
    let output = engine().arg("check").arg(&path).output().unwrap();
    assert!(output.status.success());
    let events = parse_events(&output.stdout);
    assert_eq!((events[0]["event"].as_str(), events[0]["due"].as_u64()), (Some("ok"), Some(100)));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn an_output_that_is_taken_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let path = write_job(dir.path(), job("127.0.0.1:1", open(50.0, 100_000), get()));
    std::fs::create_dir(dir.path().join("requests")).unwrap();
    std::fs::write(dir.path().join("requests/thread-0.log"), "precious").unwrap();
    let output = engine().args(["run", "--no-lifeline"]).arg(&path).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(parse_events(&output.stdout).pop().unwrap()["event"], "error");
    assert_eq!(std::fs::read(dir.path().join("requests/thread-0.log")).unwrap(), b"precious");
}

#[test]
fn version_says_what_was_built() {
    let output = engine().arg("--version").output().unwrap();
    let mut text = String::new();
    output.stdout.as_slice().read_to_string(&mut text).unwrap();
    assert!(text.contains("epoll") && text.contains("rustc"), "{text}");
}
