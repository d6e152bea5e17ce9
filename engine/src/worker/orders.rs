//! What a worker is told: one JSON object a message; docs/workers.md.
use serde::Deserialize;

/// One order.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Order {
    /// Take this job: its bytes and then those of its files follow as pieces.
    Job {
        /// The job itself.
        job: Content,
        /// Which part of it is this worker's.
        part: Part,
        /// What it names, each found under this name in the job's folder.
        files: Vec<File>,
    },
    /// Say what time it is.
    Clock {
        /// When this was sent, on the clock of the sender; it is sent back.
        sent_ns: u64,
    },
    /// Begin the load at this instant of the worker's monotonic clock.
    Start {
        /// The instant.
        at_ns: u64,
    },
    /// End the load and keep everything.
    Stop {},
    /// Send a log.
    Fetch {
        /// Its name.
        name: String,
        /// From here on.
        offset: u64,
    },
    /// All was fetched; the worker may end.
    Finish {},
}

/// Bytes that follow as pieces.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Content {
    /// How many.
    pub bytes: u64,
    /// CRC-32 (IEEE) of them.
    pub crc32: u32,
}

/// Which worker of how many.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// From 0.
    pub worker: u64,
    /// How many there are.
    pub of: u64,
}

/// A file that a job names.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Its name in the job's folder.
    pub name: String,
    /// How many bytes.
    pub bytes: u64,
    /// CRC-32 (IEEE) of them.
    pub crc32: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_strict() {
        let good = [
            r#"{"do": "stop"}"#,
            r#"{"do": "start", "at_ns": 5}"#,
            r#"{"do": "fetch", "name": "x", "offset": 0}"#,
        ];
        for text in good {
            assert!(serde_json::from_str::<Order>(text).is_ok(), "{text}");
        }
        let bad = [
            r#"{"do": "leave"}"#,
            r#"{"do": "start"}"#,
            r#"{"do": "start", "at_ns": -1}"#,
            r#"{"do": "stop", "x": 1}"#,
            "[]",
        ];
        for text in bad {
            assert!(serde_json::from_str::<Order>(text).is_err(), "{text}");
        }
    }
}
