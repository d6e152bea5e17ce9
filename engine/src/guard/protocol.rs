//! What the guard is told (stdin) and what it tells (stdout): one JSON object a line.

use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Grace on EOF or on a signal to the guard, when `spawn` named none.
pub const DEFAULT_GRACE_MS: u64 = 5000;
/// Output kept of an instance, when `spawn` named no limit.
pub const DEFAULT_LOG_LIMIT_BYTES: u64 = 10 << 20;

/// One line of stdin.
#[derive(Debug, Deserialize)]
#[serde(tag = "cmd", rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Start an instance.
    Spawn(Box<Spawn>),
    /// End an instance: a signal, a grace, then SIGKILL to all that is left of it.
    Stop {
        /// Which.
        id: String,
        /// The first signal.
        #[serde(default = "term")]
        signal: SignalName,
        /// Time from the signal to SIGKILL.
        #[serde(default = "default_grace_ms")]
        grace_ms: u64,
    },
    /// Send a signal to every process of an instance.
    Signal {
        /// Which.
        id: String,
        /// The signal.
        signal: SignalName,
    },
    /// Ask for a `status` event.
    Status {},
}

/// What to start, and how.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spawn {
    /// Name of the instance; free again once it has exited.
    pub id: String,
    /// Program (looked up in the PATH of `env`) and arguments.
    pub argv: Vec<String>,
    /// The whole environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Working directory.
    pub cwd: PathBuf,
    /// Where stdout and stderr go; appended to.
    pub log: PathBuf,
    /// Bytes of output to keep; more is counted only.
    #[serde(default = "default_log_limit_bytes")]
    pub log_limit_bytes: u64,
    /// CPU time per time, over all CPUs.
    #[serde(default)]
    pub cpu_cores: Option<f64>,
    /// Memory bound.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// CPUs to run on.
    #[serde(default)]
    pub cpus: Option<Vec<u32>>,
    /// Absolute nice value.
    #[serde(default)]
    pub nice: Option<i32>,
    /// Grace when the guard itself ends.
    #[serde(default = "default_grace_ms")]
    pub grace_ms: u64,
}

fn term() -> SignalName {
    SignalName(Signal::TERM)
}

fn default_grace_ms() -> u64 {
    DEFAULT_GRACE_MS
}

fn default_log_limit_bytes() -> u64 {
    DEFAULT_LOG_LIMIT_BYTES
}

/// A signal by name, with or without `SIG`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct SignalName(pub Signal);

const SIGNALS: [(&str, Signal); 10] = [
    ("TERM", Signal::TERM),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("HUP", Signal::HUP),
    ("KILL", Signal::KILL),
    ("STOP", Signal::STOP),
    ("CONT", Signal::CONT),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
    ("ABRT", Signal::ABORT),
];

impl TryFrom<String> for SignalName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let short = name.strip_prefix("SIG").unwrap_or(&name);
        SIGNALS.iter().find(|(known, _)| *known == short).map(|&(_, signal)| Self(signal)).ok_or_else(|| {
            let known: Vec<_> = SIGNALS.iter().map(|&(known, _)| known).collect();
            format!("unknown signal {name:?}; known: {}", known.join(", "))
        })
    }
}

/// One line of stdout.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The guard stands.
    Ready {
        /// Of the guard.
        pid: i32,
        /// With the pid, who the guard is until the next boot.
        start_ticks: u64,
        /// Which boot.
        boot_id: String,
        /// `v1`, `v2` or `none`.
        cgroup: &'static str,
        /// What could not be had, and why; empty if nothing.
        note: String,
    },
    /// An instance runs.
    Spawned {
        /// Which.
        id: String,
        /// Its first process.
        pid: i32,
        /// With the pid, who it is until the next boot.
        start_ticks: u64,
        /// Its directories, one a hierarchy.
        cgroup: Vec<PathBuf>,
        /// What became of the limits that were asked for.
        limits: Limits,
    },
    /// An instance could not be started.
    SpawnFailed {
        /// Which.
        id: String,
        /// Why.
        message: String,
    },
    /// An instance is gone, all its processes included.
    Exited(Exited),
    /// The answer to `status`.
    Status {
        /// All instances so far, by id.
        instances: BTreeMap<String, InstanceStatus>,
    },
    /// A command was wrong, or something that was asked for did not work.
    Error {
        /// What.
        message: String,
    },
    /// Everything is ended; nothing follows.
    Bye,
}

/// `"applied"` or why not; null when not asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// `cpu_cores`
    pub cpu: Option<String>,
    /// `memory_bytes`
    pub memory: Option<String>,
    /// `cpus`
    pub cpus: Option<String>,
    /// `nice`
    pub nice: Option<String>,
}

/// See [`Event::Exited`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Exited {
    /// Which.
    pub id: String,
    /// Its first process.
    pub pid: i32,
    /// Exit code, if it exited.
    pub code: Option<i32>,
    /// Signal number, if one ended it.
    pub signal: Option<i32>,
    /// The kernel killed a process of this instance for want of memory.
    pub oom_killed: bool,
    /// When the first process ended, `CLOCK_MONOTONIC`.
    pub t_ns: u64,
    /// Bytes of output.
    pub log_bytes: u64,
    /// Bytes of output in the log.
    pub log_kept_bytes: u64,
    /// Processes that outlived the first one and had to be killed.
    pub descendants_killed: u64,
    /// True after a `stop`.
    pub expected: bool,
    /// Time that the CPU limit took from it; null without the limit.
    pub throttled_s: Option<f64>,
}

/// See [`Event::Status`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct InstanceStatus {
    /// Its first process.
    pub pid: i32,
    /// False once the first process has ended.
    pub running: bool,
    /// Bytes of output.
    pub log_bytes: u64,
    /// Bytes of output in the log.
    pub log_kept_bytes: u64,
    /// Time that the CPU limit took from it; null without the limit.
    pub throttled_s: Option<f64>,
    /// Processes that the kernel killed for want of memory; null where that is not known.
    pub oom_kills: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_commands_are_read() {
        let spawn = r#"{"cmd": "spawn", "id": "app-0", "argv": ["python", "-m", "catalogue"], "env": {"PORT": "8101"},
            "cwd": "/abs", "log": "/abs/logs/app-0.log", "log_limit_bytes": 10485760, "cpu_cores": 0.5,
            "memory_bytes": null, "cpus": null, "nice": 0}"#;
        assert!(matches!(serde_json::from_str(spawn), Ok(Command::Spawn(_))));
        let stop = r#"{"cmd": "stop", "id": "app-0", "signal": "TERM", "grace_ms": 5000}"#;
        assert!(matches!(serde_json::from_str(stop), Ok(Command::Stop { grace_ms: 5000, .. })));
        let signal = r#"{"cmd": "signal", "id": "app-0", "signal": "SIGSTOP"}"#;
        assert!(matches!(serde_json::from_str(signal), Ok(Command::Signal { .. })));
        assert!(matches!(serde_json::from_str(r#"{"cmd": "status"}"#), Ok(Command::Status {})));
    }

    #[test]
    fn unknown_keys_and_signals_are_errors() {
        let key = serde_json::from_str::<Command>(r#"{"cmd": "status", "sorce": 1}"#).unwrap_err();
        assert!(key.to_string().contains("sorce"), "{key}");
        let signal = serde_json::from_str::<Command>(r#"{"cmd": "signal", "id": "a", "signal": "TREM"}"#);
        assert!(signal.unwrap_err().to_string().contains("TERM, INT"));
    }
}
