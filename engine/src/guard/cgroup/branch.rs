//! One directory in one cgroup hierarchy.

use super::InUse;
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A group in one hierarchy.
#[derive(Clone, Debug)]
pub struct Branch {
    /// Its directory.
    pub directory: PathBuf,
    /// Its name in /proc/PID/cgroup.
    pub group: String,
    /// Its hierarchy's name there: `cpu,cpuacct`; empty for version 2.
    pub label: String,
}

impl Branch {
    /// Version 2.
    pub fn is_unified(&self) -> bool {
        self.label.is_empty()
    }

    /// Does it answer for this controller?
    pub fn has(&self, controller: &str) -> bool {
        if self.is_unified() {
            return self
                .read("cgroup.controllers")
                .is_ok_and(|all| all.split_whitespace().any(|c| c == controller));
        }
        self.label.split(',').any(|c| c == controller)
    }

    /// The group of that name in this one; not created.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        Self {
            directory: self.directory.join(name),
            group: format!("{}/{name}", self.group.trim_end_matches('/')),
            label: self.label.clone(),
        }
    }

    /// Creates the directory; one that is there already (left by a killed guard) will do.
    pub fn create(&self) -> io::Result<()> {
        match fs::create_dir(&self.directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    /// Locks the directory for as long as the result lives; an error when somebody else has it. `None` where directories
    /// of cgroups cannot be locked.
    pub fn lock(&self) -> Result<Option<OwnedFd>, InUse> {
        let Ok(directory) = fs::File::open(&self.directory) else { return Ok(None) };
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(directory.into())),
            Err(Errno::WOULDBLOCK) => Err(InUse("another guard".to_owned())),
            Err(_) => Ok(None),
        }
    }

    /// One of its files.
    pub fn read(&self, file: &str) -> io::Result<String> {
        fs::read_to_string(self.directory.join(file))
    }

    /// Writes one of its files, which must be there.
    pub fn write(&self, file: &str, value: &str) -> io::Result<()> {
        use io::Write;
        fs::OpenOptions::new().write(true).open(self.directory.join(file))?.write_all(value.as_bytes())
    }

    /// A number behind a key in one of its files.
    pub fn number(&self, file: &str, key: &str) -> Option<u64> {
        let text = self.read(file).ok()?;
        text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
    }

    /// The processes in it and in the groups below.
    pub fn pids(&self) -> Vec<i32> {
        let mut pids = Vec::new();
        for directory in below(&self.directory) {
            let procs = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
            pids.extend(procs.lines().filter_map(|line| line.parse::<i32>().ok()));
        }
        pids
    }

    /// Is the process in it, or in a group below?
    pub fn contains(&self, pid: i32) -> bool {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        groups.lines().any(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            parts.next() == Some(&self.label)
                && parts.next().is_some_and(|group| is_within(group, &self.group))
        })
    }

    /// Removes it and the groups below; false while the kernel still has something in them.
    pub fn remove(&self) -> bool {
        let mut directories = below(&self.directory);
        directories.reverse();
        directories.iter().all(|directory| match fs::remove_dir(directory) {
            Ok(()) => true,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        })
    }
}

fn is_within(group: &str, ancestor: &str) -> bool {
    group.strip_prefix(ancestor).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The directory and all below it, parents first; empty if it is not there.
fn below(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut found = vec![directory.to_owned()];
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(below(&entry.path()));
        }
    }
    found
}

/// All directories of that name below a mount point.
pub fn find(mount: &Path, name: &str) -> Vec<PathBuf> {
    find_where(mount, |found| found == name)
}

/// All directories below a mount point whose names are such, parents first.
pub fn find_where(mount: &Path, is_such: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let mut directories = below(mount);
    directories
        .retain(|directory| directory.file_name().and_then(|name| name.to_str()).is_some_and(&is_such));
    directories
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn within_is_by_whole_names() {
        assert!(is_within("/t/a", "/t/a") && is_within("/t/a/b", "/t/a"));
        assert!(!is_within("/t/ab", "/t/a") && !is_within("/", "/t"));
    }

    #[test]
    fn files_of_a_group_are_read_and_written() {
        let dir = tempfile::tempdir().unwrap();
        let branch = Branch { directory: dir.path().to_owned(), group: "/g".into(), label: String::new() };
        fs::write(dir.path().join("cgroup.controllers"), "cpu memory pids\n").unwrap();
        fs::write(dir.path().join("memory.events"), "low 0\noom 3\noom_kill 2\noom_group_kill 1\n").unwrap();
        assert!(branch.has("memory") && !branch.has("mem"));
        assert_eq!(branch.number("memory.events", "oom_kill"), Some(2));
        assert_eq!(branch.number("memory.events", "max"), None);
        assert!(branch.write("cpu.max", "1").is_err(), "a control file that is not there is not made");
        let child = branch.child("app-0");
        assert_eq!(child.group, "/g/app-0");
        child.create().unwrap();
        child.create().unwrap();
        fs::write(child.directory.join("cgroup.procs"), "7\n9\n").unwrap();
        assert_eq!(branch.pids(), [7, 9]);
        assert_eq!(find(dir.path(), "app-0"), [child.directory]);
    }
}
