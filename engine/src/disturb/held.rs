//! Faults that are on in this process: whoever comes first undoes them, and all of them are undone before it ends.
use super::journal::Journal;
use super::orders::Fault;
use super::trace::Trace;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const TRIES: u32 = 5;
const BETWEEN_TRIES: Duration = Duration::from_millis(100);

/// One fault, until it is undone.
pub struct Held(Mutex<Option<(PathBuf, Trace)>>);

/// All of them.
pub struct HeldAll {
    journal: Journal,
    all: Mutex<Option<Vec<Arc<Held>>>>,
}

impl Held {
    /// Undoes it, if nobody has yet; after a failure it still is on.
    pub fn undo(&self) -> Result<(), String> {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((path, trace)) = &*place else { return Ok(()) };
        let mut undone = trace.undo();
        for _ in 1..TRIES {
            if undone.is_ok() {
                break;
            }
            std::thread::sleep(BETWEEN_TRIES);
            undone = trace.undo();
        }
        undone?;
        let _ = std::fs::remove_file(path);
        *place = None;
        Ok(())
    }

    /// See [`Trace::cuts_us_off`].
    pub fn cuts_us_off(&self) -> bool {
        let place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        place.as_ref().is_some_and(|(_, trace)| trace.cuts_us_off())
    }

    /// Does it; a failure leaves nothing.
    pub fn begin(&self, fault: &Fault) -> Result<Value, String> {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((path, trace)) = &*place else { return Err("it was undone already".into()) };
        let begun = trace.begin(fault);
        if begun.is_err() {
            let _ = std::fs::remove_file(path);
            *place = None;
        }
        begun
    }
}

impl HeldAll {
    /// None, yet.
    pub fn new(journal: Journal) -> Self {
        Self { journal, all: Mutex::new(Some(Vec::new())) }
    }

    /// Looks whether a fault is possible, and notes it in the journal; it is begun by [`Held::begin`].
    pub fn note(&self, fault: &Fault) -> Result<Arc<Held>, String> {
        let trace = Trace::of(fault)?;
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(all) = &mut *all else { return Err("this disturber is ending".into()) };
        let held = Arc::new(Held(Mutex::new(Some(self.journal.note(trace)?))));
        // Those that are undone need not be kept.
        all.retain(|one| one.0.lock().unwrap_or_else(PoisonError::into_inner).is_some());
        all.push(Arc::clone(&held));
        Ok(held)
    }

    /// Undoes all of them, for good; what could not be undone is said.
    pub fn end(&self) -> Vec<String> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner).take();
        all.unwrap_or_default().iter().rev().filter_map(|held| held.undo().err()).collect()
    }
}
