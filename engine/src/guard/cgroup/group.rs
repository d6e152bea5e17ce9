//! The cgroup of an instance, over all hierarchies.

use super::Branch;
use crate::guard::process::Pinned;
use rustix::process::Signal;
use std::fs::{File, OpenOptions};
use std::path::PathBuf;

/// The period of the CPU limit: the kernel's default, which is also what Kubernetes uses.
const CPU_PERIOD_US: f64 = 100_000.0;
/// The smallest quota that the kernel takes.
const MIN_CPU_QUOTA_US: f64 = 1000.0;

/// Processes that are limited, counted and ended together.
#[derive(Clone, Debug, Default)]
pub struct Group {
    branches: Vec<Branch>,
}

impl Group {
    /// Of these directories.
    pub fn new(branches: Vec<Branch>) -> Self {
        Self { branches }
    }

    /// Are there cgroups at all?
    pub fn exists(&self) -> bool {
        !self.branches.is_empty()
    }

    /// Its directories.
    pub fn directories(&self) -> Vec<PathBuf> {
        self.branches.iter().map(|b| b.directory.clone()).collect()
    }

    /// What a process writes `0` into to be in the group.
    pub fn entrances(&self) -> Vec<(String, std::io::Result<File>)> {
        let open = |b: &Branch| OpenOptions::new().write(true).open(b.directory.join("cgroup.procs"));
        self.branches.iter().map(|b| (b.directory.display().to_string(), open(b))).collect()
    }

    /// All processes in it.
    pub fn pids(&self) -> Vec<i32> {
        let mut pids: Vec<i32> = self.branches.iter().flat_map(Branch::pids).collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// Is the process in it?
    pub fn contains(&self, pid: i32) -> bool {
        self.branches.iter().any(|b| b.contains(pid))
    }

    fn controller(&self, name: &str) -> Result<&Branch, String> {
        self.branches.iter().find(|b| b.has(name)).ok_or_else(|| format!("no {name} cgroup"))
    }

    /// `Err` says why it could not be applied.
    pub fn limit_cpu(&self, cores: f64) -> Result<(), String> {
        let branch = self.controller("cpu")?;
        let quota_us = (cores * CPU_PERIOD_US).max(MIN_CPU_QUOTA_US).round();
        let written = if branch.is_unified() {
            branch.write("cpu.max", &format!("{quota_us} {CPU_PERIOD_US}"))
        } else {
            branch
                .write("cpu.cfs_period_us", &format!("{CPU_PERIOD_US}"))
                .and_then(|()| branch.write("cpu.cfs_quota_us", &format!("{quota_us}")))
        };
        written.map_err(|error| format!("{}: {error}", branch.directory.display()))
    }

    /// `Err` says why it could not be applied. Swap counts as memory where the kernel can say so.
    pub fn limit_memory(&self, bytes: u64) -> Result<(), String> {
        let branch = self.controller("memory")?;
        let (limit, swap) = if branch.is_unified() {
            ("memory.max", ("memory.swap.max", "0".to_owned()))
        } else {
            ("memory.limit_in_bytes", ("memory.memsw.limit_in_bytes", bytes.to_string()))
        };
        branch
            .write(limit, &bytes.to_string())
            .map_err(|error| format!("{}: {error}", branch.directory.display()))?;
        // Absent without swap accounting; without swap there is nothing to bound.
        let _ = branch.write(swap.0, &swap.1);
        if branch.is_unified() {
            // An instance that lost one of its processes is no instance any more.
            let _ = branch.write("memory.oom.group", "1");
        }
        Ok(())
    }

    /// Time that the CPU limit took from it.
    pub fn throttled_s(&self) -> Option<f64> {
        let branch = self.controller("cpu").ok()?;
        if branch.is_unified() {
            Some(branch.number("cpu.stat", "throttled_usec")? as f64 / 1e6)
        } else {
            Some(branch.number("cpu.stat", "throttled_time")? as f64 / 1e9)
        }
    }

    /// Processes that the kernel killed for want of memory.
    pub fn oom_kills(&self) -> Option<u64> {
        let branch = self.controller("memory").ok()?;
        branch.number(if branch.is_unified() { "memory.events" } else { "memory.oom_control" }, "oom_kill")
    }

    /// Kills all that is in it, so that no fork outruns it: the kernel kills the whole group (version 2), or all is
    /// frozen while it is killed (version 1). With neither, a caller that repeats this wins against anything but a fork
    /// bomb with priority.
    pub fn kill(&self) {
        for branch in self.branches.iter().filter(|b| b.is_unified()) {
            let _ = branch.write("cgroup.kill", "1");
        }
        let freezers: Vec<_> = self.branches.iter().filter(|b| b.has("freezer")).collect();
        for branch in &freezers {
            let _ = branch.write("freezer.state", "FROZEN");
        }
        for pid in self.pids() {
            if let Some(pinned) = Pinned::new(pid, |pid| self.contains(pid)) {
                let _ = pinned.signal(Signal::KILL);
            }
        }
        for branch in &freezers {
            let _ = branch.write("freezer.state", "THAWED");
        }
    }

    /// Removes it; false while the kernel still has something in it.
    pub fn remove(&self) -> bool {
        // All of them, whatever becomes of the others.
        let removed: Vec<bool> = self.branches.iter().map(Branch::remove).collect();
        removed.iter().all(|&ok| ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// The files of a group as the kernel has them; what it does with them is tested with the real one.
    fn group(label: &str, files: &[(&str, &str)]) -> (tempfile::TempDir, Group) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let branch = Branch { directory: dir.path().to_owned(), group: "/g".into(), label: label.into() };
        (dir, Group::new(vec![branch]))
    }

    #[test]
    fn limits_and_counters_of_version_2() {
        let (dir, group) = group(
            "",
            &[
                ("cgroup.controllers", "cpu memory"),
                ("cpu.max", ""),
                ("memory.max", ""),
                ("memory.oom.group", ""),
                ("cpu.stat", "usage_usec 5\nthrottled_usec 1500000\n"),
                ("memory.events", "oom_kill 1\n"),
            ],
        );
        group.limit_cpu(0.25).unwrap();
        group.limit_memory(1 << 20).unwrap();
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!(read("cpu.max"), "25000 100000");
        assert_eq!((read("memory.max").as_str(), read("memory.oom.group").as_str()), ("1048576", "1"));
        assert_eq!((group.throttled_s(), group.oom_kills()), (Some(1.5), Some(1)));
    }

    #[test]
    fn limits_and_counters_of_version_1() {
        let (dir, group) = group(
            "cpu,memory",
            &[
                ("cpu.cfs_period_us", ""),
                ("cpu.cfs_quota_us", ""),
                ("memory.limit_in_bytes", ""),
                ("cpu.stat", "nr_periods 5\nthrottled_time 1500000000\n"),
                ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
            ],
        );
        group.limit_cpu(0.001).unwrap();
        group.limit_memory(4096).unwrap();
        assert_eq!(
            fs::read_to_string(dir.path().join("cpu.cfs_quota_us")).unwrap(),
            "1000",
            "the kernel's least"
        );
        assert_eq!((group.throttled_s(), group.oom_kills()), (Some(1.5), Some(2)));
    }

    #[test]
    fn what_is_not_there_is_said() {
        let (_dir, group) = group("memory", &[]);
        assert_eq!(group.limit_cpu(1.0), Err("no cpu cgroup".to_owned()));
        assert!(group.limit_memory(1).unwrap_err().contains("No such file"));
        assert_eq!(group.throttled_s(), None);
    }
}
