//! An instance from its start until all its processes are gone.

use super::capture::{Capture, Pumped};
use super::ending::Kin;
use super::protocol::{Exited, InstanceStatus};
use rustix::fd::BorrowedFd;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Between two looks at what is left of an instance; doubles from the first to the last.
const FIRST_LOOK: Duration = Duration::from_millis(2);
const LAST_LOOK: Duration = Duration::from_millis(50);
/// Processes that survive SIGKILL for so long hang in the kernel; they are named and left to the end of the guard.
const STUCK_AFTER: Duration = Duration::from_secs(10);

/// How the first process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ending {
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
    /// `CLOCK_MONOTONIC`
    pub(super) t_ns: u64,
}

/// What a look at an instance found.
pub(super) enum Progress {
    /// Look again, at [`Instance::next_look`].
    Going,
    /// All its processes are gone. The message names those that could not be killed.
    Gone(Box<Exited>, Option<String>),
}

/// One instance.
pub(super) struct Instance {
    pub(super) kin: Kin,
    pub(super) grace: Duration,
    capture: Option<Capture>,
    status: InstanceStatus,
    ending: Option<Ending>,
    /// When what is left is killed: set by a stop, or by the end of the first process.
    deadline: Option<Instant>,
    kill_since: Option<Instant>,
    expected: bool,
    killed: BTreeSet<i32>,
    next_look: Option<Instant>,
    pause: Duration,
    gone: bool,
}

impl Instance {
    /// One that has just been started.
    pub(super) fn new(kin: Kin, capture: Capture, grace: Duration) -> Self {
        Self {
            status: InstanceStatus { pid: kin.pid, running: true, ..InstanceStatus::default() },
            kin,
            grace,
            capture: Some(capture),
            ending: None,
            deadline: None,
            kill_since: None,
            expected: false,
            killed: BTreeSet::new(),
            next_look: None,
            pause: FIRST_LOOK,
            gone: false,
        }
    }

    /// Are all its processes gone?
    pub(super) fn is_gone(&self) -> bool {
        self.gone
    }

    /// Does its first process live?
    pub(super) fn is_running(&self) -> bool {
        self.ending.is_none()
    }

    /// Its output, to poll; `None` once it has ended.
    pub(super) fn output(&self) -> Option<BorrowedFd<'_>> {
        self.capture.as_ref().map(Capture::fd)
    }

    /// Takes output; a message when the log can no longer be written.
    pub(super) fn pump(&mut self) -> Option<String> {
        let capture = self.capture.as_mut()?;
        let pumped = capture.pump();
        let message = self.note_output();
        if pumped == Pumped::Ended {
            return message.or_else(|| self.end_output());
        }
        message
    }

    fn end_output(&mut self) -> Option<String> {
        self.capture.as_mut()?.finish();
        let message = self.note_output();
        self.capture = None;
        message
    }

    fn note_output(&mut self) -> Option<String> {
        let capture = self.capture.as_mut()?;
        (self.status.log_bytes, self.status.log_kept_bytes) = (capture.total, capture.kept);
        let error = capture.log_error.take()?;
        Some(format!("{}: its log cannot be written, its output is only counted: {error}", self.kin.id))
    }

    /// Begins the end: a signal now, SIGKILL after the grace. A second stop can only hasten it.
    pub(super) fn stop(&mut self, signal: Signal, grace: Duration, now: Instant) {
        if self.gone {
            return;
        }
        // The instance had ended by itself if its first process was gone before.
        self.expected |= self.is_running();
        let deadline = now + grace;
        self.deadline = Some(self.deadline.map_or(deadline, |earlier| earlier.min(deadline)));
        self.kin.signal(signal);
        // A stopped process acts on nothing but SIGKILL.
        self.kin.signal(Signal::CONT);
        self.look_at(now);
    }

    /// The first process has ended and was reaped.
    pub(super) fn first_process_ended(&mut self, ending: Ending, now: Instant) {
        self.ending = Some(ending);
        self.status.running = false;
        // Without a stop, what it leaves behind has no grace: the instance is no more.
        self.deadline.get_or_insert(now);
        self.pause = FIRST_LOOK;
        self.look_at(now);
    }

    fn look_at(&mut self, when: Instant) {
        self.next_look = Some(self.next_look.map_or(when, |earlier| earlier.min(when)));
    }

    /// When [`Instance::look`] has something to do; `None` while it just runs.
    pub(super) fn next_look(&self) -> Option<Instant> {
        if self.gone { None } else { self.next_look }
    }

    /// Drives the end on.
    pub(super) fn look(&mut self, now: Instant) -> Progress {
        let due = self.next_look.is_some_and(|when| when <= now);
        let Some(deadline) = self.deadline.filter(|_| due && !self.gone) else { return Progress::Going };
        if let Some(ending) = self.ending {
            if self.kin.is_gone() {
                return self.finish(ending, None);
            }
            if self.kill_since.is_some_and(|since| now >= since + STUCK_AFTER) {
                let pids: Vec<i32> = self.kin.alive().iter().map(|s| s.pid).collect();
                let message = format!("{}: processes {pids:?} survive SIGKILL", self.kin.id);
                return self.finish(ending, Some(message));
            }
        }
        if now >= deadline {
            self.kill_since.get_or_insert(now);
            self.kin.kill(&mut self.killed);
        }
        let wait_for_deadline = self.is_running() && now < deadline;
        self.next_look = Some(if wait_for_deadline { deadline } else { now + self.pause });
        self.pause = (self.pause * 2).min(LAST_LOOK);
        Progress::Going
    }

    fn finish(&mut self, ending: Ending, stuck: Option<String>) -> Progress {
        self.gone = true;
        let log_error = self.end_output();
        self.refresh_status();
        let exited = Exited {
            id: self.kin.id.clone(),
            pid: self.kin.pid,
            code: ending.code,
            signal: ending.signal,
            oom_killed: self.status.oom_kills.is_some_and(|n| n > 0),
            t_ns: ending.t_ns,
            log_bytes: self.status.log_bytes,
            log_kept_bytes: self.status.log_kept_bytes,
            descendants_killed: self.killed.len() as u64,
            expected: self.expected,
            throttled_s: self.status.throttled_s,
        };
        Progress::Gone(Box::new(exited), stuck.or(log_error))
    }

    /// Its numbers now; after its end, those of its end.
    pub(super) fn status(&mut self) -> InstanceStatus {
        if !self.gone {
            self.refresh_status();
        }
        self.status.clone()
    }

    fn refresh_status(&mut self) {
        self.status.throttled_s = self.kin.group.throttled_s();
        self.status.oom_kills = self.kin.group.oom_kills();
    }
}
