//! What the ingress is told (stdin) and what it tells (stdout): one JSON object a line. docs/formats.md has an example of each.
//!
//! Times are `CLOCK_MONOTONIC` in ns.

use crate::limits::Change;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// Another meaning of a line is another number.
pub const PROTOCOL: u32 = 1;

/// One line of stdin.
#[derive(Debug, Deserialize)]
#[serde(tag = "cmd", rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Other bounds and policies from now on.
    Limits(Change),
    /// Another instance.
    Add {
        /// Its name: free, or free again.
        instance: String,
        /// Where it listens, on loopback.
        address: SocketAddr,
        /// Requests that it serves at most at a time; 0 = no limit.
        #[serde(default)]
        concurrency: u64,
        /// How it is found to be ready; without it, it is.
        #[serde(default)]
        probe: Option<Probe>,
    },
    /// Nothing new for this instance.
    Drain {
        /// Which.
        instance: String,
    },
    /// It is gone, or is about to be.
    Remove {
        /// Which.
        instance: String,
    },
}

/// How an instance is found to be ready.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Probe {
    /// Answered with 2xx or 3xx to a GET; without it, an accepted connection does.
    pub path: Option<String>,
    /// From the end of one probe to the next.
    pub every_ms: u64,
    /// Of one probe.
    pub timeout_ms: u64,
    /// After this long the instance is given up.
    pub give_up_ms: Option<u64>,
}

impl Default for Probe {
    fn default() -> Self {
        // queue-proxy's pace when it probes aggressively, and its timeout of one probe.
        Self { path: None, every_ms: 25, timeout_ms: 1000, give_up_ms: None }
    }
}

/// One line of stdout.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// It listens.
    Ready {
        /// [`PROTOCOL`]
        protocol: u32,
        /// Of the ingress.
        pid: u32,
        /// Where requests go.
        listen: SocketAddr,
        /// When.
        t_ns: u64,
        /// Of the ingress.
        version: &'static str,
        /// Profile, compiler, target, commit.
        build: serde_json::Value,
    },
    /// A request can go nowhere.
    Wanted {
        /// When.
        t_ns: u64,
        /// What made it so.
        reason: Reason,
        /// Requests held.
        held: u64,
        /// Requests at instances.
        in_flight: u64,
        /// Instances that take requests.
        ready: u64,
    },
    /// An instance takes requests.
    InstanceReady {
        /// Which.
        instance: Name,
        /// When.
        t_ns: u64,
        /// When it was added.
        added_ns: u64,
        /// Probes that it took; 0 = none was asked for.
        probes: u64,
    },
    /// An instance refused a connection; it is probed before it gets another request.
    InstanceUnready {
        /// Which.
        instance: Name,
        /// When.
        t_ns: u64,
        /// What was seen.
        reason: String,
    },
    /// An instance did not get ready in the time that it was given.
    GaveUp {
        /// Which.
        instance: Name,
        /// When.
        t_ns: u64,
        /// How often it was tried.
        probes: u64,
        /// What was seen last.
        reason: String,
    },
    /// The first request goes to an instance.
    FirstRequest {
        /// Which.
        instance: Name,
        /// When.
        t_ns: u64,
        /// How long the request had been held.
        held_ns: u64,
    },
    /// An instance takes nothing new and serves nothing any more.
    Drained {
        /// Which.
        instance: Name,
        /// When.
        t_ns: u64,
    },
    /// An instance is forgotten.
    Removed {
        /// Which.
        instance: Name,
        /// When.
        t_ns: u64,
        /// Requests that it still serves.
        in_flight: u64,
    },
    /// What happened since the last one.
    Stats(Box<Stats>),
    /// A line was wrong.
    Error {
        /// What, and what is allowed.
        message: String,
    },
    /// Nothing follows.
    Done {
        /// When.
        t_ns: u64,
        /// Requests that were cut off.
        interrupted: u64,
    },
}

/// Why capacity is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// A request came.
    Arrival,
    /// The last ready instance went while requests were held.
    Lost,
}

/// See [`Event::Stats`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stats {
    /// Begin of the interval: the end of the last one.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
    /// Requests that came.
    pub arrivals: u64,
    /// Requests held at its end.
    pub held: u64,
    /// How long the longest of them has been.
    pub held_now_longest_ns: u64,
    /// Requests that began to be held.
    pub held_total: u64,
    /// Requests at instances at its end.
    pub in_flight: u64,
    /// Instances that take requests.
    pub ready: u64,
    /// Mean of held and in flight.
    pub concurrency: f64,
    /// Mean of held.
    pub held_concurrency: f64,
    /// Status → answers of instances that were passed on whole.
    pub answered: BTreeMap<u16, u64>,
    /// Reason → answers that the ingress made.
    pub made: BTreeMap<&'static str, u64>,
    /// Clients that left first.
    pub left: Left,
    /// Answers that an instance began and did not end.
    pub cut: u64,
    /// By instance.
    pub instances: BTreeMap<Name, InstanceStats>,
}

/// Clients that left before they had their answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Left {
    /// While their request was held.
    pub held: u64,
    /// While an instance served it.
    pub in_flight: u64,
}

/// An instance's part of [`Stats`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InstanceStats {
    /// Of its life.
    pub state: State,
    /// Requests that it serves at the end of the interval.
    pub in_flight: u64,
    /// Their mean.
    pub concurrency: f64,
    /// Requests that went to it.
    pub requests: u64,
    /// Status → its answers.
    pub answered: BTreeMap<u16, u64>,
    /// Requests for which it took no connection.
    pub refused: u64,
    /// Requests that it took and did not answer.
    pub broke: u64,
    /// Answers that it began and did not end.
    pub cut: u64,
}

/// The name of an instance, shared by all that speak of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(Arc<str>);

impl From<String> for Name {
    fn from(name: String) -> Self {
        Self(name.into())
    }
}

impl std::ops::Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for Name {
    fn borrow(&self) -> &str {
        self
    }
}

impl Serialize for Name {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self)
    }
}

/// Where an instance is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Probed.
    Starting,
    /// Takes requests.
    Ready,
    /// Takes nothing new.
    Draining,
    /// Did not get ready in time.
    GivenUp,
    /// Forgotten, but for requests that it still serves.
    Removed,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picker::Policy;

    #[test]
    fn the_documented_commands_are_read() {
        let limits = r#"{"cmd": "limits", "pending": 10, "pending_per_instance": null, "held_timeout_ms": 300000,
            "policy": "random_choice_2", "invocations_per_minute": null, "concurrent_invocations": 30}"#;
        let Ok(Command::Limits(change)) = serde_json::from_str(limits) else { panic!() };
        assert_eq!(change.pending, Some(Some(10)));
        assert_eq!(change.pending_per_instance, Some(None), "null is said, too");
        assert_eq!(change.policy, Some(Policy::RandomChoice2));
        assert_eq!(serde_json::from_str::<Change>("{}").unwrap().pending, None);
        let add = r#"{"cmd": "add", "instance": "app-3", "address": "127.0.0.1:41003", "concurrency": 2,
            "probe": {"path": "/healthz", "every_ms": 50}}"#;
        let Ok(Command::Add { probe: Some(probe), concurrency: 2, .. }) = serde_json::from_str(add) else {
            panic!()
        };
        assert_eq!((probe.path.as_deref(), probe.every_ms, probe.timeout_ms), (Some("/healthz"), 50, 1000));
        assert!(matches!(
            serde_json::from_str(r#"{"cmd": "drain", "instance": "a"}"#),
            Ok(Command::Drain { .. })
        ));
        assert!(matches!(
            serde_json::from_str(r#"{"cmd": "remove", "instance": "a"}"#),
            Ok(Command::Remove { .. })
        ));
    }

    #[test]
    fn unknown_keys_commands_and_policies_are_errors_that_say_what_is_allowed() {
        let said = |line: &str| serde_json::from_str::<Command>(line).unwrap_err().to_string();
        assert!(said(r#"{"cmd": "drain", "instance": "a", "grace": 1}"#).contains("grace"));
        assert!(said(r#"{"cmd": "limits", "pendig": 1}"#).contains("pending_per_instance"));
        assert!(said(r#"{"cmd": "limits", "policy": "magic"}"#).contains("first_available"));
        assert!(said(r#"{"cmd": "stop"}"#).contains("remove"));
        assert!(said(r#"{"cmd": "add", "instance": "a", "address": "there"}"#).contains("socket address"));
        let probe = r#"{"cmd": "add", "instance": "a", "address": "127.0.0.1:1", "probe": {"evry_ms": 1}}"#;
        assert!(said(probe).contains("every_ms"));
    }
}
