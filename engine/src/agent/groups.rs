//! Control groups of pods and containers: where they are, and what their names say. Nothing here is watched.
//!
//! Below `kubepods` (driver cgroupfs) or `kubepods.slice` (driver systemd), one level for each class but the first, lie pods,
//! and in them containers: `kubepods/burstable/podUID/ID`, or
//! `kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice/cri-containerd-ID.scope`, with `_` for `-` in the
//! uid. A node that is itself a container has a name of its own in front (`kubelet-kubepods.slice`).
use super::host::text;
use super::number::{Number, Shown};
use std::path::{Path, PathBuf};

/// Controllers of version 1 in whose hierarchy pods are looked for, the quietest first.
const HIERARCHIES: [&str; 6] = ["pids", "memory", "cpuacct", "cpu,cpuacct", "cpu", "systemd"];
/// Groups above that of all pods: slices of a node that is a container, of an init system.
const DEEPEST: usize = 4;
/// Folders that are looked into for it.
const MOST_LOOKED_AT: usize = 2_000;
const ID_DIGITS: std::ops::RangeInclusive<usize> = 12..=64;

/// What a group's name says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// A class of pods.
    Class,
    /// A pod, by its uid.
    Pod(String),
    /// A container, by its id.
    Container(String),
    /// Something else.
    Other,
}

/// Reads the name of a group below the one of all pods.
pub fn named(name: &str) -> Named {
    let (plain, is_slice) = match name.strip_suffix(".slice") {
        Some(plain) => (plain, true),
        None => (name.strip_suffix(".scope").unwrap_or(name), false),
    };
    let last = if is_slice { plain.rsplit('-').next().unwrap_or(plain) } else { plain };
    if let Some(uid) = last.strip_prefix("pod")
        && is_uid(uid)
    {
        return Named::Pod(uid.replace('_', "-"));
    }
    if matches!(last, "burstable" | "besteffort" | "guaranteed") {
        return Named::Class;
    }
    let (runtime, id) = plain.rsplit_once('-').unwrap_or(("", plain));
    let is_id = ID_DIGITS.contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    // CRI-O puts the process that holds a container's terminal beside it.
    if is_id && !is_slice && !runtime.contains("conmon") {
        Named::Container(id.to_owned())
    } else {
        Named::Other
    }
}

/// A uid, or the hash that stands for one in pods that the kubelet runs by itself.
fn is_uid(text: &str) -> bool {
    text.len() >= 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-' || byte == b'_')
}

/// Where the groups of this machine's pods are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The group of all pods, in the hierarchy that is watched.
    pub pods: PathBuf,
    /// Version 2: groups tell when they are empty.
    pub unified: bool,
    /// The same group where CPU is counted, and memory.
    cpu: Option<PathBuf>,
    memory: Option<PathBuf>,
}

impl Layout {
    /// Looks for it; None on a machine without pods.
    pub fn find(sys: &Path) -> Option<Self> {
        let root = sys.join("fs/cgroup");
        if root.join("cgroup.controllers").is_file() {
            let pods = find_pods(&root)?;
            return Some(Self { cpu: Some(pods.clone()), memory: Some(pods.clone()), pods, unified: true });
        }
        let in_hierarchy = |name: &str| find_pods(&root.join(name));
        let pods = HIERARCHIES.into_iter().find_map(in_hierarchy)?;
        let cpu = ["cpuacct", "cpu,cpuacct"].into_iter().find_map(in_hierarchy);
        Some(Self { pods, unified: false, cpu, memory: in_hierarchy("memory") })
    }

    /// What all pods together use.
    pub fn read(&self, into: &mut Vec<Number>) {
        if let Some(used_s) = self.cpu.as_deref().and_then(|group| cpu_s(group, self.unified)) {
            into.push(Number::of_host("pods_cpu_cores", used_s, Shown::Rate));
        }
        let file = if self.unified { "memory.current" } else { "memory.usage_in_bytes" };
        let memory =
            self.memory.as_deref().and_then(|group| super::host::number(text(&group.join(file)).trim()));
        if let Some(bytes) = memory {
            into.push(Number::of_host("pods_memory_bytes", bytes, Shown::Level));
        }
    }
}

fn cpu_s(group: &Path, unified: bool) -> Option<f64> {
    if !unified {
        return super::host::number(text(&group.join("cpuacct.usage")).trim()).map(|ns| ns / 1e9);
    }
    let stat = text(&group.join("cpu.stat"));
    let used = stat.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    super::host::number(used.trim()).map(|us| us / 1e6)
}

/// The nearest group of all pods, level by level.
fn find_pods(root: &Path) -> Option<PathBuf> {
    let mut level = vec![root.to_path_buf()];
    let mut looked_at = 0;
    for _ in 0..DEEPEST {
        let mut next = Vec::new();
        for folder in &level {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                looked_at += 1;
                if looked_at > MOST_LOOKED_AT {
                    return None;
                }
                if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    continue;
                }
                let name = entry.file_name();
                let name = name.to_string_lossy();
                if name == "kubepods" || name == "kubepods.slice" || name.ends_with("-kubepods.slice") {
                    return Some(entry.path());
                }
                next.push(entry.path());
            }
        }
        level = next;
    }
    None
}

/// What `cgroup.events` of version 2 says: whether a process is in the group, or below it.
pub fn is_populated(events: &str) -> Option<bool> {
    let word = events.lines().find_map(|line| line.strip_prefix("populated "))?;
    match word.trim() {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "0b4aa1b0-7c1e-4a61-9d0b-5a5f7d7a2f11";
    const ID: &str = "4fa6e0f0c44e4a7d8f1a1f0e2b4b8d7a9c1e3f5061728394a5b6c7d8e9f0a1b2";

    #[test]
    fn names_of_both_drivers() {
        let slice = format!("kubepods-burstable-pod{}.slice", UID.replace('-', "_"));
        let inner = format!("kubelet-kubepods-pod{}.slice", UID.replace('-', "_"));
        for name in [format!("pod{UID}"), slice, inner] {
            assert_eq!(named(&name), Named::Pod(UID.into()), "{name}");
        }
        for runtime in ["", "cri-containerd-", "crio-", "docker-"] {
            let name = if runtime.is_empty() { ID.to_owned() } else { format!("{runtime}{ID}.scope") };
            assert_eq!(named(&name), Named::Container(ID.into()), "{name}");
        }
        for name in
            ["burstable", "besteffort", "kubepods-besteffort.slice", "kubelet-kubepods-burstable.slice"]
        {
            assert_eq!(named(name), Named::Class, "{name}");
        }
        for name in
            ["", "podium", "init.scope", "cgroup.procs", "deadbeef", &format!("crio-conmon-{ID}.scope")]
        {
            assert_eq!(named(name), Named::Other, "{name}");
        }
    }

    #[test]
    fn the_group_of_all_pods_is_found_in_every_layout() {
        for (controllers, inside, pods) in [
            (true, "kubepods.slice", "kubepods.slice"),
            (true, "kubelet.slice/kubelet-kubepods.slice", "kubelet.slice/kubelet-kubepods.slice"),
            (false, "pids/kubepods", "pids/kubepods"),
            (false, "cpu,cpuacct/kubepods", "cpu,cpuacct/kubepods"),
            (false, "systemd/towtank/node1/kubepods", "systemd/towtank/node1/kubepods"),
        ] {
            let sys = tempfile::tempdir().expect("a folder");
            let root = sys.path().join("fs/cgroup");
            std::fs::create_dir_all(root.join(inside).join("burstable")).expect("a folder");
            // Hybrid: version 2 beside the others, without controllers of its own.
            std::fs::create_dir_all(root.join("unified/system.slice")).expect("a folder");
            if controllers {
                std::fs::write(root.join("cgroup.controllers"), "cpu\n").expect("a file");
            }
            let found = Layout::find(sys.path()).expect(inside);
            assert_eq!((found.pods, found.unified), (root.join(pods), controllers));
        }
        let empty = tempfile::tempdir().expect("a folder");
        assert_eq!(Layout::find(empty.path()), None);
    }

    #[test]
    fn what_all_pods_use_is_read_in_both_versions() {
        let sys = tempfile::tempdir().expect("a folder");
        let root = sys.path().join("fs/cgroup");
        for (group, file, content) in [
            ("cpuacct/kubepods", "cpuacct.usage", "2500000000\n"),
            ("memory/kubepods", "memory.usage_in_bytes", "4096\n"),
        ] {
            std::fs::create_dir_all(root.join(group)).expect("a folder");
            std::fs::write(root.join(group).join(file), content).expect("a file");
        }
        let mut found = Vec::new();
        Layout::find(sys.path()).expect("pods").read(&mut found);
        let values: Vec<f64> = found.iter().map(|number| number.value).collect();
        assert_eq!(values, [2.5, 4096.0]);

        let sys = tempfile::tempdir().expect("a folder");
        let pods = sys.path().join("fs/cgroup/kubepods");
        std::fs::create_dir_all(&pods).expect("a folder");
        std::fs::write(sys.path().join("fs/cgroup/cgroup.controllers"), "cpu").expect("a file");
        std::fs::write(pods.join("cpu.stat"), "usage_usec 1500000\nuser_usec 1\n").expect("a file");
        let mut found = Vec::new();
        Layout::find(sys.path()).expect("pods").read(&mut found);
        assert_eq!(found.iter().map(|number| number.value).collect::<Vec<_>>(), [1.5]);
    }

    #[test]
    fn a_group_says_whether_it_is_empty() {
        assert_eq!(is_populated("populated 1\nfrozen 0\n"), Some(true));
        assert_eq!(is_populated("populated 0\nfrozen 0\n"), Some(false));
        assert_eq!(is_populated("frozen 0\n"), None);
    }
}
