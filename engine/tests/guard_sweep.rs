//! What a killed guard leaves, and that nothing else is touched.
#![allow(clippy::unwrap_used)]

mod guard_support;

use guard_support::{Guard, carriers, engine, is_alive, unique, wait_for_text, wait_until};
use std::process::{Child, Command, Stdio};

/// A process of somebody else; ended with the test.
struct Foreign(Child);

impl Foreign {
    fn start(token: Option<&str>) -> Self {
        let mut command = Command::new("sleep");
        command.arg("100").envs(token.map(|token| ("TOWTANK_TOKEN", token)));
        Self(command.spawn().unwrap())
    }

    fn is_alive(&self) -> bool {
        is_alive(self.0.id().cast_signed())
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn pids_in(path: &std::path::Path) -> Vec<i32> {
    std::fs::read_to_string(path).unwrap().lines().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn what_a_killed_guard_leaves_is_ended_and_nothing_else() {
    for cgroup in [true, false] {
        let mut guard = if cgroup { Guard::start() } else { Guard::start_with(None) };
        let foreign = Foreign::start(None);
        let other_run = Foreign::start(Some(&format!("{}x", guard.token)));
        // Only a cgroup can tell that the last one, without an environment, is ours.
        let clean = if cgroup { "env -i PATH=/usr/bin:/bin" } else { "" };
        let script = format!(
            "trap '' TERM; sleep 100 & echo $! >> pids; (setsid sleep 100 & echo $! >> pids); \
             ({clean} setsid sleep 100 & echo $! >> pids); echo $$ >> pids; echo up > up; wait"
        );
        guard.spawn_shell("a", &script);
        wait_for_text(&guard.path("up"));
        let pids = pids_in(&guard.path("pids"));
        assert!(pids.len() == 4 && pids.iter().all(|&pid| is_alive(pid)));

        guard.child.kill().unwrap();
        guard.child.wait().unwrap();
        wait_until("the death signal of the first process", || (!is_alive(pids[3])).then_some(()));
        let swept = guard.sweep();
        assert!(pids.iter().all(|&pid| !is_alive(pid)), "cgroup: {cgroup}");
        assert_eq!(swept["event"], "swept");
        assert!(swept["killed"].as_u64().unwrap() >= 3, "{swept}");
        assert!(foreign.is_alive() && other_run.is_alive(), "a foreign process was hit");
        assert!(carriers(&guard.token).is_empty() && guard.cgroups_left().is_empty());
        assert_eq!(guard.sweep()["killed"], 0, "repeating it is harmless");
    }
}

#[test]
fn a_guard_can_be_killed_at_any_moment_of_an_end() {
    for delay_ms in [0, 1, 5, 20, 60] {
        let mut guard = Guard::start();
        guard.spawn_shell("a", "trap '' TERM; setsid sleep 100 & sleep 100 & echo up > up; sleep 100");
        wait_for_text(&guard.path("up"));
        guard.stdin = None;
        std::thread::sleep(std::time::Duration::from_millis(delay_ms));
        guard.child.kill().unwrap();
        guard.child.wait().unwrap();
        guard.sweep();
        assert!(carriers(&guard.token).is_empty() && guard.cgroups_left().is_empty(), "after {delay_ms} ms");
    }
}

#[test]
fn a_cgroup_belongs_to_one_guard_at_a_time() {
    let first = Guard::start();
    if first.cgroups_left().is_empty() {
        return;
    }
    let name = first.cgroup.clone().unwrap();
    let second =
        engine(&["guard", "--token", &unique("t"), "--cgroup", &name]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    let text = String::from_utf8(second.stdout).unwrap();
    assert!(text.contains("in use by another guard"), "{text}");
}

#[test]
fn names_that_could_leave_the_cgroup_are_refused() {
    for bad in ["", "..", "a/b", ".hidden"] {
        let output = engine(&["sweep", "--token", "t", "--cgroup", bad]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{bad:?}");
    }
}
