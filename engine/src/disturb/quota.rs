//! Leaving a container less CPU, by the limit of its control group.
use super::find;
use super::orders::Id;
use crate::guard::cgroup::{Branch, Group};
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

/// Files with what was in them, in the order in which they are written back.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Had(Vec<(PathBuf, String)>);

/// What limits each of them now.
pub fn read(containers: &[Id], cores: f64) -> Result<Had, String> {
    let mut had = Vec::new();
    for container in containers {
        let branch = find::cpu_group(container)?;
        let limit = limit_of(&branch)?;
        if let Some(limit) = limit
            && limit <= cores
        {
            return Err(format!(
                "container {} may use {limit} cores already, so that {cores} would take nothing away",
                container.text()
            ));
        }
        for name in files(&branch) {
            had.push((branch.directory.join(name), text(&branch, name)?));
        }
    }
    Ok(Had(had))
}

/// Leaves each of them so many cores.
pub fn lower(containers: &[Id], cores: f64) -> Result<(), String> {
    containers.iter().try_for_each(|id| Group::new(vec![find::cpu_group(id)?]).limit_cpu(cores))
}

/// Gives back what they had; a group that is gone needs nothing.
pub fn give_back(had: &Had) -> Result<(), String> {
    for (path, text) in &had.0 {
        match std::fs::OpenOptions::new().write(true).truncate(true).open(path) {
            Ok(mut file) => {
                file.write_all(text.as_bytes()).map_err(|e| format!("{}: {e}", path.display()))?;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(format!("{}: {error}", path.display())),
        }
    }
    Ok(())
}

fn files(branch: &Branch) -> &'static [&'static str] {
    if branch.is_unified() { &["cpu.max"] } else { &["cpu.cfs_period_us", "cpu.cfs_quota_us"] }
}

fn text(branch: &Branch, name: &str) -> Result<String, String> {
    let read = branch.read(name).map_err(|e| format!("{}: {e}", branch.directory.join(name).display()))?;
    Ok(read.trim().to_owned())
}

/// Cores; `None` where there is no limit.
fn limit_of(branch: &Branch) -> Result<Option<f64>, String> {
    let (quota, period) = if branch.is_unified() {
        let both = text(branch, "cpu.max")?;
        let (quota, period) = both.split_once(' ').unwrap_or((both.as_str(), "100000"));
        (quota.to_owned(), period.to_owned())
    } else {
        (text(branch, "cpu.cfs_quota_us")?, text(branch, "cpu.cfs_period_us")?)
    };
    let (Ok(quota), Ok(period)) = (quota.parse::<f64>(), period.parse::<f64>()) else { return Ok(None) };
    Ok((quota > 0.0).then(|| quota / period))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn branch(label: &str, given: &[(&str, &str)]) -> (tempfile::TempDir, Branch) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in given {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let made = Branch { directory: dir.path().to_owned(), group: String::new(), label: label.into() };
        (dir, made)
    }

    #[test]
    fn limits_of_both_versions() {
        for (text, expected) in [("50000 100000\n", Some(0.5)), ("max 100000\n", None)] {
            let (_dir, branch) = branch("", &[("cpu.max", text)]);
            assert_eq!(limit_of(&branch), Ok(expected), "{text}");
        }
        for (quota, expected) in [("20000\n", Some(0.2)), ("-1\n", None)] {
            let files = [("cpu.cfs_quota_us", quota), ("cpu.cfs_period_us", "100000\n")];
            let (_dir, branch) = branch("cpu", &files);
            assert_eq!(limit_of(&branch), Ok(expected), "{quota}");
        }
    }

    #[test]
    fn what_was_there_is_written_back_and_what_is_gone_needs_nothing() {
        let (dir, _) = branch("", &[("cpu.max", "1000 100000")]);
        let had = Had(vec![
            (dir.path().join("gone"), "x".into()),
            (dir.path().join("cpu.max"), "max 100000".into()),
        ]);
        give_back(&had).unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("cpu.max")).unwrap(), "max 100000");
        assert!(!dir.path().join("gone").exists());
    }
}
