//! An engine that cannot keep up says so, each way by its name, and no arrival goes missing: due is rows.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod load_support;

use load_support::patience::in_time;
use load_support::scripted::{Act, Scripted};
use load_support::{closed, get, job, open, parse_events, write_job};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const ENGINE: &str = env!("CARGO_BIN_EXE_towtank-engine");

fn serving() -> Scripted {
    Scripted::start(|_, _| Act::Answer(200, 0), None)
}

/// Runs a job in a process of its own, through a command that ends with the engine's arguments.
fn spawn(command: &[&str], dir: &tempfile::TempDir, job: Value) -> Child {
    let job = write_job(dir.path(), job);
    let mut spawned = Command::new(command[0]);
    spawned.args(&command[1..]).arg(job).stdin(Stdio::piped()).stdout(Stdio::piped());
    spawned.spawn().unwrap()
}

/// Stops a run for so long, after a second.
fn stop(child: &Child, for_ms: u64) {
    let pid = Pid::from_child(child);
    std::thread::sleep(Duration::from_secs(1));
    kill_process(pid, Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_millis(for_ms));
    kill_process(pid, Signal::CONT).unwrap();
}

/// What a run said, after it has been seen that nothing is missing.
struct Said {
    findings: Vec<String>,
    counts: Value,
    own: Value,
}

fn said(child: Child) -> Said {
    let output = child.wait_with_output().unwrap();
    let events = parse_events(&output.stdout);
    let done = events.last().unwrap();
    assert_eq!(done["event"], "done", "{}", String::from_utf8_lossy(&output.stdout));
    let (counts, own) = (done["counts"].clone(), done["self"].clone());
    assert_eq!(counts["due"], counts["rows"], "every arrival has its row: {counts}");
    assert_eq!(done["files"][0]["rows"], counts["rows"], "every row is kept");
    let findings = events.iter().filter(|e| e["event"] == "finding");
    assert!(
        findings.clone().all(|f| f["advice"].as_str().is_some_and(|a| !a.is_empty())),
        "advice with each"
    );
    Said { findings: findings.map(|f| f["name"].as_str().unwrap().to_owned()).collect(), counts, own }
}

impl Said {
    fn has(&self, name: &str) {
        assert!(self.findings.iter().any(|f| f == name), "{name} is not among {:?}", self.findings);
    }

    fn outcome(&self, name: &str) -> u64 {
        self.counts["by_outcome"][name].as_u64().unwrap_or(0)
    }
}

/// Stopped for 300 ms, it finds 600 arrivals overdue when it comes back: sent late, not left out.
#[test]
fn an_engine_that_was_stopped_is_late() {
    let (server, dir) = (serving(), tempfile::tempdir().unwrap());
    let child =
        spawn(&[ENGINE, "run", "--no-lifeline"], &dir, job(&server.at(), open(2000.0, 2_500_000), get()));
    stop(&child, 300);
    let said = said(child);
    said.has("late");
    said.has("stalled");
    assert_eq!(
        (said.counts["due"].as_u64(), said.outcome("answered")),
        (Some(5000), 5000),
        "{}",
        said.counts
    );
    assert_eq!(server.end().requests.len(), 5000, "late, but all of them");
}

/// Closed load has no lag to show that the engine was away. All answers were there long before it came back: longer than the
/// timeout to look at, and yet none of them is one.
#[test]
fn a_stop_under_closed_load_is_told_and_makes_no_timeouts() {
    let (server, dir) =
        (Scripted::start(|_, _| Act::Answer(200, 100_000), None), tempfile::tempdir().unwrap());
    let mut asked = job(&server.at(), closed(20, 3_500_000), get());
    asked["workloads"][0]["timeout_us"] = 1_000_000.into();
    let child = spawn(&[ENGINE, "run", "--no-lifeline"], &dir, asked);
    stop(&child, 1500);
    let said = said(child);
    assert_eq!(said.outcome("answered"), said.counts["rows"].as_u64().unwrap(), "{}", said.counts);
    said.has("stalled");
    let (late_us, ratio) = (said.own["wake_late_max_us"].as_u64(), said.own["stalled_ratio"].as_f64());
    assert!(late_us.is_some_and(|us| (1_400_000..3_000_000).contains(&us)), "{}", said.own);
    assert!(ratio.is_some_and(|ratio| (0.3..0.9).contains(&ratio)), "{}", said.own);
}

#[test]
fn an_engine_that_nothing_disturbs_does_not_stand_still() {
    in_time(|| {
        let (server, dir) = (serving(), tempfile::tempdir().unwrap());
        let said = said(spawn(
            &[ENGINE, "run", "--no-lifeline"],
            &dir,
            job(&server.at(), closed(4, 1_000_000), get()),
        ));
        assert!(said.own["wake_late_p99_us"].is_number(), "{}", said.own);
        if said.findings.iter().any(|f| f == "stalled") {
            return Err(format!("{:?}, {}", said.findings, said.own));
        }
        assert_eq!(said.own["stalled_ratio"], 0.0);
        Ok(())
    });
}

/// More than a core can carry: a thread that is busy all the time says so, and what it could not send is counted. Nobody listens, so
/// that all the work is the engine's.
#[test]
fn a_rate_beyond_a_core_is_cpu_bound() {
    let mut asked = job("127.0.0.1:1", open(300_000.0, 2_500_000), get());
    asked["nice"] = (-20).into();
    asked["workloads"][0]["timeout_us"] = 500_000.into();
    asked["workloads"][0]["load"]["max_in_flight"] = 64.into();
    in_time(|| {
        let dir = tempfile::tempdir().unwrap();
        // Only with a lifeline it takes its priority for the whole session.
        let mut child = spawn(&[ENGINE, "run"], &dir, asked.clone());
        let mut lifeline = child.stdin.take().unwrap();
        lifeline.write_all(b"{\"start_at_ns\": null}\n").unwrap();
        let said = said(child);
        drop(lifeline);
        assert_eq!(said.counts["due"], 750_000);
        assert!(said.outcome("not_sent") > 100_000, "{}", said.counts);
        // Where others take the core from it, it is not busy for a whole second.
        if said.findings.iter().any(|f| f == "cpu_bound") {
            return Ok(());
        }
        Err(format!("cpu_bound is not among {:?}", said.findings))
    });
}

/// In a network of its own with 32 local ports, and a new connection for every iteration.
const ISOLATED: &str = r#"
set -e
folder=$(dirname "$1")
ip link set lo up
mkfifo "$folder/life"
"$0" serve < "$folder/life" > "$folder/port" &
exec 9> "$folder/life"
until grep -q port "$folder/port"; do sleep 0.05; done
sed -i "s/127.0.0.1:1\"/127.0.0.1:$(sed 's/.*"port": *\([0-9]*\).*/\1/' "$folder/port")\"/" "$1"
echo '50000 50031' > /proc/sys/net/ipv4/ip_local_port_range
"$0" run --no-lifeline "$1" 9>&-
"#;

#[test]
fn running_out_of_ports_is_told() {
    let isolated = Command::new("unshare").args(["--net", "true"]).stderr(Stdio::null()).status();
    if !isolated.is_ok_and(|status| status.success()) {
        // Said where whoever runs the tests sees it, captured or not.
        let message = "LEFT OUT: running out of ports needs root and unshare --net\n";
        std::fs::write("/dev/stderr", message).unwrap();
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut load = closed(4, 1_000_000);
    load["session"] = "iteration".into();
    let asked = job("127.0.0.1:1", load, get());
    let said = said(spawn(&["unshare", "--net", "sh", "-c", ISOLATED, ENGINE], &dir, asked));
    said.has("out_of_ports");
    assert!(said.outcome("answered") >= 28 && said.outcome("not_sent") > 0, "{}", said.counts);
}

#[test]
fn a_full_engine_drops_what_it_says_it_drops() {
    let server = Scripted::start(|_, _| Act::Answer(200, 200_000), None);
    let dir = tempfile::tempdir().unwrap();
    let mut asked = job(&server.at(), open(500.0, 1_000_000), get());
    asked["workloads"][0]["load"]["max_in_flight"] = 10.into();
    asked["workloads"][0]["load"]["when_full"] = "drop".into();
    let said = said(spawn(&[ENGINE, "run", "--no-lifeline"], &dir, asked));
    said.has("in_flight_bound_reached");
    assert_eq!(said.outcome("not_sent"), said.counts["dropped"].as_u64().unwrap());
    assert_eq!(said.outcome("not_sent") + said.outcome("answered"), 500);
    assert_eq!(server.end().requests.len() as u64, said.outcome("answered"));
}
