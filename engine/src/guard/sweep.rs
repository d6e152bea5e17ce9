//! Ends what a killed guard has left.

use super::cgroup::{Group, Tree};
use super::process::{self, Mark, Pinned};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// After this, what still lives hangs in the kernel.
const GIVE_UP: Duration = Duration::from_secs(10);

/// What a sweep did.
#[derive(Debug, Default)]
pub struct Swept {
    /// Processes that were ended.
    pub killed: usize,
    /// Processes that could not be.
    pub survivors: Vec<i32>,
    /// Cgroups that could not be removed.
    pub remaining: Vec<std::path::PathBuf>,
}

/// Ends every process in the cgroup of that name or with exactly that token in its environment, and removes the cgroup.
///
/// Each process is pinned before it is looked at and killed through the pin, so that a pid that is reused meanwhile
/// is never hit. Repeats until a look finds nothing, since what is being ended may still fork.
pub fn sweep(token: &str, cgroup: Option<&str>) -> Swept {
    let group = cgroup.map_or_else(Group::default, |name| Tree::find(name).as_group());
    let mark = Mark::new(token);
    let mut killed = BTreeSet::new();
    let until = Instant::now() + GIVE_UP;
    let mut survivors;
    loop {
        survivors = round(&group, &mark, &mut killed);
        if survivors.is_empty() || Instant::now() >= until {
            break;
        }
    }
    while !group.remove() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    let remaining = group.directories().into_iter().filter(|dir| dir.exists()).collect();
    Swept { killed: killed.len(), survivors, remaining }
}

/// Kills what is found, waits for it to end, and returns what was found.
fn round(group: &Group, mark: &Mark, killed: &mut BTreeSet<i32>) -> Vec<i32> {
    let me = rustix::process::getpid().as_raw_nonzero().get();
    let is_ours = |pid: i32| pid != me && (group.contains(pid) || mark.is_on(pid));
    let mut found: BTreeSet<i32> = group.pids().into_iter().collect();
    found.extend(process::all().iter().map(|stat| stat.pid).filter(|&pid| mark.is_on(pid)));
    let pinned: Vec<Pinned> = found.into_iter().filter_map(|pid| Pinned::new(pid, is_ours)).collect();
    if pinned.is_empty() {
        return Vec::new();
    }
    if !group.contains(me) {
        group.kill();
    }
    for process in &pinned {
        // Ended between the look and here, by the group's kill: also our doing.
        if process.signal(Signal::KILL).is_ok() {
            killed.insert(process.pid);
        }
    }
    for process in &pinned {
        process.wait_end(Duration::from_millis(500));
    }
    pinned.iter().map(|process| process.pid).collect()
}
