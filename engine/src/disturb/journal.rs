//! What is on, on disk: one file for each fault, there before it begins and until it is undone.
//!
//! A process that was killed leaves its files; the next one undoes what they say.
use super::trace::Trace;
use crate::guard::process::Stat;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder of such files.
pub struct Journal {
    folder: PathBuf,
    count: AtomicU64,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    pid: i32,
    start_ticks: u64,
    trace: Trace,
}

impl Journal {
    /// In a folder, which is made where it is not there.
    pub fn open(folder: &Path) -> Result<Self, String> {
        fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        Ok(Self { folder: folder.to_owned(), count: AtomicU64::new(0) })
    }

    /// Writes down what is about to be done.
    pub fn note(&self, trace: Trace) -> Result<(PathBuf, Trace), String> {
        let me = Stat::of(std::process::id().cast_signed()).ok_or("/proc does not show this process")?;
        let entry = Entry { pid: me.pid, start_ticks: me.start_ticks, trace };
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join(format!("{}-{}-{number}.json", me.pid, me.start_ticks));
        let temporary = path.with_extension("tmp");
        let text = serde_json::to_vec(&entry).map_err(|e| e.to_string())?;
        let written = fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, &path));
        written.map_err(|e| format!("{}: {e}; nothing was done", path.display()))?;
        Ok((path, entry.trace))
    }

    /// Undoes what dead ones have left; what could not be undone is said, and tried again by the next one.
    pub fn undo_left(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let noted = paths.filter(|path| path.extension().is_some_and(|end| end == "json"));
        noted.filter_map(|path| undo_left(&path).err()).collect()
    }
}

fn undo_left(path: &Path) -> Result<(), String> {
    let said = |why: String| format!("{}: {why}", path.display());
    let text = fs::read(path).map_err(|e| said(e.to_string()))?;
    let entry: Entry = serde_json::from_slice(&text).map_err(|e| said(e.to_string()))?;
    let alive = Stat::of(entry.pid).is_some_and(|s| s.is_alive() && s.start_ticks == entry.start_ticks);
    if alive {
        return Ok(());
    }
    entry.trace.undo().map_err(said)?;
    fs::remove_file(path).map_err(|e| said(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(file: &Path) -> Trace {
        let had = serde_json::json!({"kind": "limited", "had": [[file, "max 100000"]]});
        serde_json::from_value(had).unwrap()
    }

    #[test]
    fn what_a_dead_process_has_left_is_undone_and_that_of_a_living_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let limit = dir.path().join("cpu.max");
        fs::write(&limit, "1000 100000").unwrap();
        let journal = Journal::open(&dir.path().join("journal")).unwrap();
        let (path, _) = journal.note(limited(&limit)).unwrap();
        assert!(journal.undo_left().is_empty());
        assert_eq!(fs::read_to_string(&limit).unwrap(), "1000 100000", "whoever did it is still here");
        let other = fs::read_to_string(&path).unwrap().replace("\"start_ticks\":", "\"start_ticks\":1");
        fs::write(&path, other).unwrap();
        assert!(journal.undo_left().is_empty());
        assert_eq!(fs::read_to_string(&limit).unwrap(), "max 100000");
        assert!(!path.exists());
    }

    #[test]
    fn what_cannot_be_read_is_said_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(dir.path()).unwrap();
        let torn = dir.path().join("1-2-3.json");
        fs::write(&torn, "{").unwrap();
        assert_eq!(journal.undo_left().len(), 1);
        assert!(torn.exists());
    }
}
