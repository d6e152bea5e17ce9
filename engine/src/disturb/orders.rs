//! What a disturber is told: one JSON object a message; docs/faults.md.
use super::toxics::Toxic;
use serde::Deserialize;
use std::net::{IpAddr, SocketAddr};

/// One order.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Order {
    /// Do this, and undo it by yourself at the latest after `lasts_ms`.
    Begin {
        /// What.
        fault: Fault,
        /// From now.
        lasts_ms: u64,
    },
    /// Undo it now.
    Undo {},
}

/// Something that can be done to a container, its pod, the machine, or calls.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// Every process is stopped (SIGSTOP).
    Stop {
        /// Ids, as the container runtime has them.
        containers: Vec<Id>,
    },
    /// Each of them gets so much CPU at most.
    Cpu {
        /// Ids.
        containers: Vec<Id>,
        /// Of each.
        cores: f64,
    },
    /// A file takes room on a volume.
    Disk {
        /// Where the volume is mounted.
        containers: Vec<Id>,
        /// Uid of their pod: its volumes outlive its containers.
        pod: Id,
        /// Of the file, as the container sees it.
        folder: String,
        /// Of the file, at most.
        bytes: u64,
        /// What stays free on a disk of the volume's own.
        leave_bytes: u64,
        /// What stays free on a disk that the machine uses as well.
        leave_shared_bytes: u64,
    },
    /// Nothing comes into the pod or out of it.
    Cut {
        /// Ids of any of its containers.
        containers: Vec<Id>,
    },
    /// Nothing comes to the machine or from it.
    CutMachine {
        /// The other end of the way to be cut, besides the default routes.
        towards: IpAddr,
    },
    /// What goes over a Toxiproxy beside this disturber goes wrong.
    Toxics {
        /// Where it is told what to do; on loopback.
        api: SocketAddr,
        /// What it calls the ways.
        ways: Vec<Id>,
        /// What is put on each of them.
        toxics: Vec<Toxic>,
    },
}

/// Id of a container, a pod, a way or a toxic: letters, digits and hyphens, long enough to mean one thing only.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Id(String);

const SHORTEST_ID: usize = 12;
const LONGEST_ID: usize = 128;

impl Id {
    /// As text.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Id {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        if plain && (SHORTEST_ID..=LONGEST_ID).contains(&text.len()) {
            return Ok(Self(text));
        }
        Err(format!("{text:?} is no id: {SHORTEST_ID} to {LONGEST_ID} letters, digits and '-' are allowed"))
    }
}

impl From<Id> for String {
    fn from(id: Id) -> Self {
        id.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_strict() {
        let good = [
            r#"{"do": "undo"}"#,
            r#"{"do": "begin", "lasts_ms": 5, "fault": {"kind": "stop", "containers": ["0123456789ab"]}}"#,
            r#"{"do": "begin", "lasts_ms": 5, "fault": {"kind": "cut_machine", "towards": "10.0.0.1"}}"#,
            r#"{"do": "begin", "lasts_ms": 5, "fault":
                {"kind": "toxics", "api": "127.0.0.1:8474", "ways": ["towtank-edge-0"], "toxics": []}}"#,
        ];
        for text in good {
            assert!(serde_json::from_str::<Order>(text).is_ok(), "{text}");
        }
        let bad = [
            r#"{"do": "begin", "fault": {"kind": "stop", "containers": ["0123456789ab"]}}"#,
            r#"{"do": "begin", "lasts_ms": -1, "fault": {"kind": "stop", "containers": []}}"#,
            r#"{"do": "begin", "lasts_ms": 5, "fault": {"kind": "stop", "containers": ["ab"]}}"#,
            r#"{"do": "begin", "lasts_ms": 5, "fault": {"kind": "stop", "containers": ["../../0123456789ab"]}}"#,
            r#"{"do": "begin", "lasts_ms": 5, "fault": {"kind": "burn", "containers": []}}"#,
            r#"{"do": "begin", "lasts_ms": 5, "fault":
                {"kind": "toxics", "api": "127.0.0.1:8474", "ways": ["a/../../proxies"], "toxics": []}}"#,
            r#"{"do": "undo", "x": 1}"#,
        ];
        for text in bad {
            assert!(serde_json::from_str::<Order>(text).is_err(), "{text}");
        }
    }
}
