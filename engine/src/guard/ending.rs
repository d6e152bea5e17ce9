//! All processes of an instance, and their end.

use super::cgroup::Group;
use super::process::{self, Mark, Pinned, Stat};
use rustix::process::Signal;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

/// How the processes of one instance are told from all others.
pub(super) struct Kin {
    /// The instance.
    pub(super) id: String,
    /// Its first process.
    pub(super) pid: i32,
    /// Start time of the first process: its pid alone means nothing once it is reaped.
    pub(super) start_ticks: u64,
    /// Its cgroup, if there is one.
    pub(super) group: Group,
    /// Our token.
    pub(super) mark: Mark,
}

impl Kin {
    /// All that live, the first process included if it does.
    ///
    /// The cgroup knows them all, unless a process left it or there is none; so when it is empty, descent is asked too.
    pub(super) fn alive(&self) -> Vec<Stat> {
        let in_group: Vec<Stat> =
            self.group.pids().into_iter().filter_map(Stat::of).filter(Stat::is_alive).collect();
        if in_group.is_empty() { self.descendants() } else { in_group }
    }

    /// Only among descendants of the guard, which as a subreaper has all of them, however often they forked: those below
    /// the first process, those in its session, and orphans that carry our token and this id.
    fn descendants(&self) -> Vec<Stat> {
        let ours = below(rustix::process::getpid().as_raw_nonzero().get(), &process::all());
        let is_root = |stat: &Stat| {
            (stat.pid == self.pid && stat.start_ticks == self.start_ticks)
                || stat.session == self.pid
                || self.mark.is_on_instance(stat.pid, &self.id)
        };
        let roots: HashSet<i32> = ours.iter().filter(|s| is_root(s)).map(|s| s.pid).collect();
        let mut found: Vec<Stat> = ours.iter().filter(|s| roots.contains(&s.pid)).copied().collect();
        for &root in &roots {
            found.extend(below(root, &ours));
        }
        found.sort_unstable_by_key(|s| s.pid);
        found.dedup();
        found.retain(Stat::is_alive);
        found
    }

    /// Sends a signal to all.
    pub(super) fn signal(&self, signal: Signal) {
        for stat in self.alive() {
            send(&stat, signal);
        }
    }

    /// Kills all; adds to `killed` which ones, the first process apart.
    pub(super) fn kill(&self, killed: &mut BTreeSet<i32>) {
        let alive = self.alive();
        killed.extend(alive.iter().map(|s| s.pid).filter(|&pid| pid != self.pid));
        self.group.kill();
        for stat in &alive {
            send(stat, Signal::KILL);
        }
        if !self.group.exists() {
            hunt(|pid| pid != self.pid && self.mark.is_on_instance(pid, &self.id), killed);
        }
    }

    /// Is nothing left? Without a cgroup, a process that only forks and ends is hardly ever seen alive in a list of all
    /// processes. But the orphans that it becomes are seen: so those have to be reaped too.
    pub(super) fn is_gone(&self) -> bool {
        self.alive().is_empty()
            && (self.group.exists() || {
                let is_trace = |pid: &i32| {
                    !Stat::of(*pid).is_some_and(|s| s.is_alive()) || self.mark.is_on_instance(*pid, &self.id)
                };
                !process::own_children().iter().any(is_trace)
            })
    }
}

/// The longest hunt.
const HUNT: Duration = Duration::from_millis(20);
/// The hunt is over when so many looks in a row find nobody new.
const QUIET_LOOKS: u32 = 3;

/// Kills orphans as they come to us: what keeps forking is gone from a list of all processes before the list is
/// complete, but from the short list of our children it can be taken.
fn hunt(is_ours: impl Fn(i32) -> bool, killed: &mut BTreeSet<i32>) {
    let until = Instant::now() + HUNT;
    // Children are looked at once: their pids are not free before we reap them, and what is not ours never will be.
    let mut seen = HashSet::new();
    let mut quiet = 0;
    while quiet < QUIET_LOOKS && Instant::now() < until {
        quiet += 1;
        // The newest first: the others may be waiting to be reaped already.
        for pid in process::own_children().into_iter().rev().filter(|&pid| seen.insert(pid)) {
            quiet = 0;
            if Pinned::new(pid, &is_ours).is_some_and(|pinned| pinned.signal(Signal::KILL) == Ok(true)) {
                killed.insert(pid);
            }
        }
    }
}

/// Kills every descendant of this process; returns how many there were, those that wait to be reaped included.
pub(super) fn kill_all_descendants() -> usize {
    let mut found = below(rustix::process::getpid().as_raw_nonzero().get(), &process::all());
    found.retain(Stat::is_alive);
    for stat in &found {
        send(stat, Signal::KILL);
    }
    hunt(|_| true, &mut BTreeSet::new());
    found.len() + process::own_children().len()
}

fn send(stat: &Stat, signal: Signal) {
    let is_it = |pid| Stat::of(pid).is_some_and(|now| now.start_ticks == stat.start_ticks);
    if let Some(pinned) = Pinned::new(stat.pid, is_it) {
        let _ = pinned.signal(signal);
    }
}

/// All descendants of a process, itself not included.
fn below(ancestor: i32, all: &[Stat]) -> Vec<Stat> {
    let mut children: HashMap<i32, Vec<Stat>> = HashMap::new();
    for stat in all {
        children.entry(stat.parent).or_default().push(*stat);
    }
    let mut found: Vec<Stat> = Vec::new();
    let mut next = children.remove(&ancestor).unwrap_or_default();
    while let Some(stat) = next.pop() {
        next.extend(children.remove(&stat.pid).unwrap_or_default());
        found.push(stat);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descent_is_followed_to_the_end() {
        let stat = |pid, parent| Stat { pid, state: 'S', parent, session: 1, start_ticks: 1 };
        let all = [stat(1, 0), stat(5, 1), stat(9, 5), stat(2, 9), stat(7, 1), stat(3, 3)];
        let mut pids: Vec<i32> = below(5, &all).iter().map(|s| s.pid).collect();
        pids.sort_unstable();
        assert_eq!(pids, [2, 9]);
        assert!(below(3, &all).iter().all(|s| s.pid == 3), "a loop ends");
    }
}
