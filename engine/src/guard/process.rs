//! Who a process is, as /proc tells it; and killing it without ever hitting another one.

use super::{INSTANCE_VARIABLE, TOKEN_VARIABLE};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::time::Duration;

/// The fields of /proc/PID/stat that we need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The process.
    pub pid: i32,
    /// `R`, `S`, `Z` …
    pub state: char,
    /// Its parent.
    pub parent: i32,
    /// Its session.
    pub session: i32,
    /// Start time in clock ticks since boot: with the pid, a name that is never used again until the next boot.
    pub start_ticks: u64,
}

impl Stat {
    /// `None` when there is no such process.
    pub fn of(pid: i32) -> Option<Self> {
        parse_stat(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// False for what only waits to be reaped.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// The command's name stands in parentheses and may itself contain any of `) (` and spaces: the last `)` counts.
fn parse_stat(line: &str) -> Option<Stat> {
    let (pid, rest) = line.split_once(" (")?;
    let (_, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    Some(Stat {
        pid: pid.parse().ok()?,
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        start_ticks: fields.get(19)?.parse().ok()?,
    })
}

/// The children of this process, by the kernel's own list: much faster than [`all`]. It is single-threaded, so the list
/// of its one thread is all of them.
pub fn own_children() -> Vec<i32> {
    let me = rustix::process::getpid().as_raw_nonzero();
    let list = std::fs::read_to_string(format!("/proc/self/task/{me}/children")).unwrap_or_default();
    list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Every process that can be seen.
pub fn all() -> Vec<Stat> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).filter_map(Stat::of).collect()
}

/// This boot; pids and start times of another one mean nothing.
pub fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// What marks processes of ours in their environment.
#[derive(Clone, Debug)]
pub struct Mark {
    token: Vec<u8>,
}

impl Mark {
    /// For a token.
    pub fn new(token: &str) -> Self {
        Self { token: format!("{TOKEN_VARIABLE}={token}").into_bytes() }
    }

    /// Does the process carry exactly our token? What cannot be read does not.
    pub fn is_on(&self, pid: i32) -> bool {
        environment(pid).is_some_and(|env| has_entry(&env, &self.token))
    }

    /// Does it carry our token and belong to this instance?
    pub fn is_on_instance(&self, pid: i32, id: &str) -> bool {
        let instance = format!("{INSTANCE_VARIABLE}={id}").into_bytes();
        environment(pid).is_some_and(|env| has_entry(&env, &self.token) && has_entry(&env, &instance))
    }
}

fn environment(pid: i32) -> Option<Vec<u8>> {
    std::fs::read(format!("/proc/{pid}/environ")).ok()
}

fn has_entry(environ: &[u8], entry: &[u8]) -> bool {
    environ.split(|&b| b == 0).any(|e| e == entry)
}

/// A process that is pinned: whatever happens to its pid, a signal goes to it or to nobody.
pub struct Pinned {
    pidfd: OwnedFd,
    /// The process.
    pub pid: i32,
}

impl Pinned {
    /// Pins a process if it is alive and `is_ours` says so *after* it was pinned: if its pid were reused in between, the
    /// pin would be on the dead one, and what `is_ours` looked at would never be signalled.
    pub fn new(pid: i32, is_ours: impl FnOnce(i32) -> bool) -> Option<Self> {
        let pidfd = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
        (Stat::of(pid)?.is_alive() && is_ours(pid)).then_some(Self { pidfd, pid })
    }

    /// `Ok(false)` when it is gone already.
    pub fn signal(&self, signal: Signal) -> Result<bool, Errno> {
        match pidfd_send_signal(&self.pidfd, signal) {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits until it has ended (reaped or not); false when the time is over before.
    pub fn wait_end(&self, timeout: Duration) -> bool {
        let timeout =
            Timespec { tv_sec: timeout.as_secs().cast_signed(), tv_nsec: timeout.subsec_nanos().into() };
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        matches!(poll(&mut fds, Some(&timeout)), Ok(ready) if ready > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_command_name_may_look_like_the_rest_of_the_line() {
        let line = "42 (a) R 1 (b) S 7 42 43 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2 3";
        let stat = parse_stat(line).unwrap();
        assert_eq!(stat, Stat { pid: 42, state: 'S', parent: 7, session: 43, start_ticks: 987_654 });
    }

    #[test]
    fn this_process_is_seen() {
        let me = rustix::process::getpid().as_raw_nonzero().get();
        let stat = Stat::of(me).unwrap();
        assert!(stat.is_alive() && all().contains(&Stat { state: stat.state, ..stat }) || !all().is_empty());
        assert!(boot_id().len() >= 32);
    }

    #[test]
    fn a_token_must_match_exactly() {
        let env = b"A=1\0TOWTANK_TOKEN=abcd\0B=TOWTANK_TOKEN=abc\0";
        assert!(has_entry(env, b"TOWTANK_TOKEN=abcd"));
        assert!(!has_entry(env, b"TOWTANK_TOKEN=abc"));
        assert!(!has_entry(env, b"TOWTANK_TOKEN="));
    }

    #[test]
    fn a_dead_process_cannot_be_pinned_and_its_pin_hits_nobody() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id().cast_signed();
        assert!(Pinned::new(pid, |_| false).is_none());
        let pinned = Pinned::new(pid, |_| true).unwrap();
        assert!(!pinned.wait_end(Duration::from_millis(1)));
        child.kill().unwrap();
        assert!(pinned.wait_end(Duration::from_secs(5)));
        assert!(Pinned::new(pid, |_| true).is_none(), "a zombie is not alive");
        child.wait().unwrap();
        assert_eq!(pinned.signal(Signal::KILL), Ok(false));
    }

    proptest! {
        #[test]
        fn no_line_panics(line in ".{0,200}") {
            let _ = parse_stat(&line);
        }
    }
}
