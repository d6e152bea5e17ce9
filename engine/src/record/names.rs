//! What ids in rows stand for, and the facts of a run that its records need to be read alone.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a table of names is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NameKind {
    /// Workloads.
    Workload,
    /// Steps of journeys.
    Step,
    /// Targets.
    Target,
    /// Instances that answered.
    Instance,
    /// Outcomes.
    Outcome,
}

/// Facts of the run; goes into the metadata of the Parquet file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunInfo {
    /// The run's id.
    #[serde(default)]
    pub run_id: String,
    /// End of the warm-up of each workload on the run clock, by name.
    #[serde(default)]
    pub warmup_us: BTreeMap<String, i64>,
}

/// The payload of a names batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum NamesPayload {
    /// `{"kind": "step", "names": {"0": "list"}}`
    Table {
        /// Which ids.
        kind: NameKind,
        /// Id → name; later batches add to earlier ones.
        names: BTreeMap<u16, String>,
    },
    /// `{"kind": "run", "run": {…}}`
    Run {
        /// Always `run`.
        kind: RunTag,
        /// The facts.
        run: RunInfo,
    },
}

/// The one value of `kind` for [`NamesPayload::Run`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunTag {
    /// `"run"`
    Run,
}

impl NamesPayload {
    /// From JSON.
    pub fn parse(json: &[u8]) -> serde_json::Result<Self> {
        // Not an untagged enum: serde cannot read numbers as keys through one.
        #[derive(Deserialize)]
        struct Table {
            kind: NameKind,
            names: BTreeMap<u16, String>,
        }
        #[derive(Deserialize)]
        struct Run {
            run: RunInfo,
        }
        match serde_json::from_slice(json) {
            Ok(Table { kind, names }) => Ok(Self::Table { kind, names }),
            Err(_) => serde_json::from_slice(json).map(|Run { run }| Self::Run { kind: RunTag::Run, run }),
        }
    }

    /// The header's `count`.
    pub fn count(&self) -> u32 {
        match self {
            Self::Table { names, .. } => names.len() as u32,
            Self::Run { .. } => 1,
        }
    }
}
