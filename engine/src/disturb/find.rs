//! Processes and control groups of a container, found by its id as the container runtime wrote it into their names.
use super::orders::Id;
use crate::guard::cgroup::{Branch, branch, mounts};
use crate::guard::process::{self, Stat};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering};

/// A process that sees the whole machine: its first one, unless another was named.
static MACHINE: AtomicI32 = AtomicI32::new(1);

/// The machine, by a process that sees all of it.
pub fn machine() -> i32 {
    MACHINE.load(Ordering::Relaxed)
}

/// Where the first process may not be looked at, another one shows what the machine is.
pub fn see_machine_as(pid: i32) {
    MACHINE.store(pid, Ordering::Relaxed);
}

/// Every living process of these containers.
pub fn processes(containers: &[Id]) -> Vec<Stat> {
    with_groups(of_one_of(containers))
}

/// Every living process of a pod, in whichever container.
pub fn processes_of_pod(pod: &Id) -> Vec<Stat> {
    // systemd's groups have their hyphens for something else.
    let other = pod.text().replace('-', "_");
    with_groups(|groups| groups.contains(pod.text()) || groups.contains(&other))
}

fn with_groups(is_in: impl Fn(&str) -> bool) -> Vec<Stat> {
    let mut found = process::all();
    found.retain(|stat| stat.is_alive() && is_in_group(stat.pid, &is_in));
    found
}

fn is_in_group(pid: i32, is_in: impl Fn(&str) -> bool) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|groups| is_in(&groups))
}

/// Whether a process is in one of these containers, now.
pub fn is_process_of(pid: i32, containers: &[Id]) -> bool {
    is_in_group(pid, of_one_of(containers))
}

fn of_one_of(containers: &[Id]) -> impl Fn(&str) -> bool {
    move |groups| containers.iter().any(|id| groups.contains(id.text()))
}

/// One living process of these containers.
pub fn one_of(containers: &[Id]) -> Result<i32, String> {
    processes(containers).first().map(|stat| stat.pid).ok_or_else(|| {
        let ids: Vec<&str> = containers.iter().map(Id::text).collect();
        format!("no process of container {} runs on this machine", ids.join(", "))
    })
}

/// What a process has as its root.
pub fn root_of(pid: i32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/root"))
}

/// The control group of a container that limits its CPU, as the machine sees it.
pub fn cpu_group(container: &Id) -> Result<Branch, String> {
    let table = std::fs::read_to_string(format!("/proc/{}/mountinfo", machine()))
        .map_err(|e| format!("the machine's mounts cannot be read: {e}"))?;
    // Version 1 first: on a hybrid machine the limits are where the controller is.
    for label in ["cpu", ""] {
        let Some(mount) = mounts::find(&table, label) else { continue };
        let seen = below(&root_of(machine()), &mount);
        if let Some(directory) = branch::find_where(&seen, |name| is_group_of(name, container)).first() {
            return Ok(Branch {
                directory: directory.clone(),
                group: String::new(),
                label: label.to_owned(),
            });
        }
    }
    Err(format!("container {} has no control group for CPU on this machine", container.text()))
}

/// Names are `ID`, `cri-containerd-ID.scope`, `crio-ID.scope`; `crio-conmon-ID.scope` is of the process that watches it.
fn is_group_of(name: &str, container: &Id) -> bool {
    name.contains(container.text()) && !name.contains("conmon")
}

fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_told_by_the_id_in_their_names() {
        let id = Id::try_from("0123456789abcdef".to_owned()).unwrap();
        for name in
            ["0123456789abcdef", "cri-containerd-0123456789abcdef.scope", "crio-0123456789abcdef.scope"]
        {
            assert!(is_group_of(name, &id), "{name}");
        }
        assert!(!is_group_of("crio-conmon-0123456789abcdef.scope", &id));
        assert!(!is_group_of("0123456789abcde", &id));
    }

    #[test]
    fn what_runs_nowhere_is_said() {
        let id = Id::try_from("feedfeedfeedfeed".to_owned()).unwrap();
        assert!(
            one_of(std::slice::from_ref(&id))
                .unwrap_err()
                .contains("no process of container feedfeedfeedfeed")
        );
        assert!(processes_of_pod(&id).is_empty());
    }
}
