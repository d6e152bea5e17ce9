//! A cgroup for the guard and one in it for each instance, in every hierarchy that helps.
//!
//! Version 1 gives limits by `cpu` and `memory`, accounting by `cpuacct`, and a kill that no fork can outrun by
//! `freezer`; version 2 gives all of it in one. On a hybrid machine both are used: the limits are where the controllers
//! are. Nothing here is needed: what is not permitted is said, and the guard goes on without it.

pub mod branch;
mod group;
pub mod mounts;

pub use branch::Branch;
pub use group::Group;

use mounts::Hierarchy;
use rustix::fd::OwnedFd;
use std::path::{Path, PathBuf};

const WANTED_V1: [&str; 4] = ["cpu", "cpuacct", "memory", "freezer"];
const WANTED_V2: [&str; 2] = ["cpu", "memory"];

/// The guard's own group in every hierarchy that could be had.
#[derive(Debug, Default)]
pub struct Tree {
    branches: Vec<Branch>,
    /// Held while the guard lives: an idle guard has no process in its group.
    locks: Vec<OwnedFd>,
    /// What could not be had, and why.
    pub notes: Vec<String>,
}

/// The group is in use, by whom: ending what is ours would end what is not.
#[derive(Debug)]
pub struct InUse(pub String);

impl Tree {
    /// No cgroups, for this reason.
    pub fn none(why: &str) -> Self {
        Self { notes: vec![why.to_owned()], ..Self::default() }
    }

    /// Creates `<group of the guard>/<name>` in every hierarchy. An empty one that a killed guard has left will do.
    pub fn create(name: &str) -> Result<Self, InUse> {
        let mut tree = Self::default();
        for hierarchy in mounts::hierarchies() {
            let branch = if hierarchy.is_unified() {
                tree.create_v2(&hierarchy, name)
            } else if WANTED_V1.iter().any(|c| hierarchy.has_v1(c)) {
                tree.create_at(&hierarchy, &hierarchy.directory(&hierarchy.own), name)
            } else {
                continue;
            };
            tree.branches.extend(branch);
        }
        for branch in &tree.branches {
            tree.locks.extend(branch.lock()?);
        }
        let pids = tree.as_group().pids();
        if !pids.is_empty() {
            return Err(InUse(format!("processes {pids:?}")));
        }
        if tree.branches.is_empty() && tree.notes.is_empty() {
            tree.notes.push("no cgroups are mounted".to_owned());
        }
        Ok(tree)
    }

    /// What a guard of this name has left, wherever it was.
    pub fn find(name: &str) -> Self {
        let mut branches = Vec::new();
        for hierarchy in mounts::hierarchies() {
            for directory in branch::find(&hierarchy.mount, name) {
                let Some(group) = hierarchy.group(&directory) else { continue };
                branches.push(Branch { directory, group, label: hierarchy.label.clone() });
            }
        }
        Self { branches, ..Self::default() }
    }

    /// `v1`, `v2` or `none`: where limits are.
    pub fn version(&self) -> &'static str {
        match &self.branches {
            all if all.iter().any(|b| !b.is_unified()) => "v1",
            all if all.is_empty() => "none",
            _ => "v2",
        }
    }

    /// The whole of it as one group.
    pub fn as_group(&self) -> Group {
        Group::new(self.branches.clone())
    }

    /// Creates the group of an instance, in those hierarchies where that works; anew if an earlier one of the same id
    /// has left it, because its counters do not count for this one.
    pub fn instance(&self, id: &str) -> Group {
        let mut branches: Vec<_> = self.branches.iter().map(|b| b.child(id)).collect();
        branches.retain(|branch| {
            branch.remove();
            branch.create().is_ok()
        });
        Group::new(branches)
    }

    fn create_at(&mut self, hierarchy: &Hierarchy, parent: &Path, name: &str) -> Option<Branch> {
        let directory = parent.join(name);
        let branch =
            Branch { group: hierarchy.group(&directory)?, directory, label: hierarchy.label.clone() };
        match branch.create() {
            Ok(()) => Some(branch),
            Err(error) => {
                self.notes.push(format!("{}: {error}", branch.directory.display()));
                None
            }
        }
    }

    /// In version 2 a group with processes in it cannot hand controllers down, and our own has one: us. So the nearest
    /// ancestor that hands them down already is taken, and if there is none, our own group without limits: it still
    /// tells who is ours.
    fn create_v2(&mut self, hierarchy: &Hierarchy, name: &str) -> Option<Branch> {
        let own = hierarchy.directory(&hierarchy.own);
        let candidates: Vec<PathBuf> =
            own.ancestors().take_while(|dir| dir.starts_with(&hierarchy.mount)).map(Path::to_owned).collect();
        let hands_down = |dir: &PathBuf| {
            let text = std::fs::read_to_string(dir.join("cgroup.subtree_control")).unwrap_or_default();
            WANTED_V2.iter().all(|wanted| text.split_whitespace().any(|c| c == *wanted))
        };
        for parent in candidates.iter().filter(|dir| hands_down(dir)) {
            let Some(branch) = self.create_at(hierarchy, parent, name) else { continue };
            match branch.write("cgroup.subtree_control", "+cpu +memory") {
                Ok(()) => return Some(branch),
                Err(error) => self.notes.push(format!("{}: {error}", branch.directory.display())),
            }
            branch.remove();
        }
        let branch = self.create_at(hierarchy, &own, name)?;
        if branch.read("cgroup.controllers").is_ok_and(|c| !c.trim().is_empty()) {
            self.notes.push(format!("{}: no ancestor hands cpu and memory down", own.display()));
        }
        Some(branch)
    }
}
