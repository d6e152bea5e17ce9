//! Measurements on a machine that others use too.
use std::sync::Mutex;
use std::time::Duration;

/// How often a short measurement is tried.
pub const ATTEMPTS: usize = 8;

/// Whoever took the cores has done with them, it is hoped; after each attempt so much longer.
const PAUSE: Duration = Duration::from_millis(500);

/// What the first good attempt gives; or what was wrong with each.
///
/// An attempt says what spoiled it, or which bound in time it missed. What must hold however busy the machine is, it asserts itself:
/// that fails at once.
pub fn patiently<T>(most: usize, attempt: impl Fn() -> Result<T, String>) -> Result<T, String> {
    let mut spoiled = Vec::with_capacity(most);
    while spoiled.len() < most {
        match attempt() {
            Ok(measured) => return Ok(measured),
            Err(why) => {
                eprintln!("attempt {} of {most}: {why}", spoiled.len() + 1);
                spoiled.push(why);
                std::thread::sleep(PAUSE * spoiled.len() as u32);
            }
        }
    }
    Err(format!("none of {most} attempts is good: {}", spoiled.join("; ")))
}

/// As [`patiently`], for what a quiet moment of the machine must give.
pub fn in_time<T>(attempt: impl Fn() -> Result<T, String>) -> T {
    patiently(ATTEMPTS, attempt).unwrap_or_else(|why| panic!("{why}"))
}

/// That something took no longer than is allowed, or how it did.
pub fn bounded(what: &str, is: u64, allowed: u64) -> Result<(), String> {
    if is < allowed { Ok(()) } else { Err(format!("{what}: {is}, allowed are less than {allowed}")) }
}

/// The priority of this session over others, as a run under a lifeline takes it, while any of these lives. Where that is not
/// permitted, or there are no groups by session, nothing.
pub struct Ahead;

static AHEAD: Mutex<usize> = Mutex::new(0);

impl Ahead {
    pub fn take() -> Self {
        Self::count(|count| count + 1);
        Self
    }

    fn count(change: impl Fn(usize) -> usize) {
        let mut count = AHEAD.lock().unwrap();
        let before = std::mem::replace(&mut *count, 0);
        *count = change(before);
        if before == 0 || *count == 0 {
            let _ = std::fs::write("/proc/self/autogroup", if *count == 0 { "0" } else { "-10" });
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        Self::count(|count| count - 1);
    }
}
