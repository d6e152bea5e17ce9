//! Which cgroup hierarchies there are, and where this process is in them.

use std::path::PathBuf;

/// One mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Where it is mounted.
    pub mount: PathBuf,
    /// Which of its groups is seen at the mount point; not `/` in some containers.
    pub root: String,
    /// Its name in /proc/PID/cgroup: `cpu,cpuacct`; empty for the unified one.
    pub label: String,
    /// The group of this process.
    pub own: String,
}

impl Hierarchy {
    /// Version 2.
    pub fn is_unified(&self) -> bool {
        self.label.is_empty()
    }

    /// Version 1 with this controller.
    pub fn has_v1(&self, controller: &str) -> bool {
        self.label.split(',').any(|c| c == controller)
    }

    /// The directory of a group as /proc/PID/cgroup names it; the mount point for one that is not seen from here.
    pub fn directory(&self, group: &str) -> PathBuf {
        let below = match self.root.as_str() {
            "/" => Some(group),
            root => group.strip_prefix(root).filter(|rest| rest.is_empty() || rest.starts_with('/')),
        };
        // A group outside of our namespace is shown as `/../…`.
        let below = below.filter(|path| !path.split('/').any(|part| part == ".."));
        self.mount.join(below.unwrap_or("").trim_start_matches('/'))
    }

    /// The inverse of [`Hierarchy::directory`].
    pub fn group(&self, directory: &std::path::Path) -> Option<String> {
        let below = directory.strip_prefix(&self.mount).ok()?.to_str()?;
        Some(format!("{}/{below}", self.root.trim_end_matches('/')))
    }
}

/// All of them; empty where there are none, as in many containers.
pub fn hierarchies() -> Vec<Hierarchy> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    parse(&mounts, &groups)
}

fn parse(mountinfo: &str, own_groups: &str) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = Vec::new();
    for line in own_groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(label), Some(own)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let mount = mountinfo.lines().find_map(|line| mount_of(line, label));
        if let Some((mount, root)) = mount {
            found.push(Hierarchy { mount, root, label: label.to_owned(), own: own.to_owned() });
        }
    }
    found
}

/// Where a table of mounts (`mountinfo`) has the hierarchy with this label; with several controllers, one will do.
pub fn find(mountinfo: &str, label: &str) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| mount_of(line, label)).map(|(mount, _)| mount)
}

/// The mount point and root of a line of mountinfo if it is the hierarchy with this label.
fn mount_of(line: &str, label: &str) -> Option<(PathBuf, String)> {
    let (before, after) = line.split_once(" - ")?;
    let mut fields = before.split(' ').skip(3);
    let (root, mount) = (fields.next()?, fields.next()?);
    let mut fields = after.split(' ');
    let (kind, options) = (fields.next()?, fields.nth(1)?);
    let is_it = if label.is_empty() {
        kind == "cgroup2"
    } else {
        kind == "cgroup" && label.split(',').all(|c| options.split(',').any(|o| o == c))
    };
    is_it.then(|| (PathBuf::from(mount), root.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hybrid_machine() {
        let mounts = "30 20 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs rw,mode=755\n\
            31 30 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
            32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
            33 30 0:29 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n";
        let groups = "4:cpu,cpuacct:/a/b\n1:name=systemd:/\n7:memory:/x\n0::/user.slice\n";
        let found = parse(mounts, groups);
        assert_eq!(found.len(), 3, "memory is not mounted: {found:?}");
        assert!(found[0].has_v1("cpu") && !found[0].has_v1("cp") && !found[0].is_unified());
        assert_eq!(found[0].directory("/a/b"), PathBuf::from("/sys/fs/cgroup/cpu,cpuacct/a/b"));
        assert!(found[2].is_unified());
        assert_eq!(found[2].group(&found[2].directory("/user.slice/n")).unwrap(), "/user.slice/n");
    }

    #[test]
    fn a_container_sees_its_own_group_as_the_root() {
        let mounts = "99 98 0:27 /docker/abc /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n";
        let found = parse(mounts, "0::/docker/abc\n");
        assert_eq!(found[0].directory("/docker/abc/n"), PathBuf::from("/sys/fs/cgroup/n"));
        assert_eq!(found[0].directory("/docker/abcd"), PathBuf::from("/sys/fs/cgroup"));
        assert_eq!(found[0].directory("/../other"), PathBuf::from("/sys/fs/cgroup"));
        assert_eq!(found[0].group(&PathBuf::from("/sys/fs/cgroup/n")).unwrap(), "/docker/abc/n");
    }
}
