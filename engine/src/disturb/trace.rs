//! What a fault leaves until it is undone, written down so that another process can undo it.
use super::fill::{self, Room};
use super::orders::{Fault, Id};
use super::{cut, quota, stop, toxics};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::net::SocketAddr;

/// All that undoing it takes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Trace {
    /// Processes are stopped.
    Stopped {
        /// Of these.
        containers: Vec<Id>,
    },
    /// Limits are lower.
    Limited {
        /// Than they were.
        had: quota::Had,
    },
    /// A file takes room.
    Filled {
        /// Of these.
        containers: Vec<Id>,
        /// Of this pod.
        pod: Id,
        /// There.
        folder: String,
    },
    /// A pod is cut off.
    Cut {
        /// Any of its containers.
        containers: Vec<Id>,
    },
    /// The machine is cut off.
    MachineCut {
        /// On these interfaces.
        interfaces: Vec<String>,
    },
    /// Calls go wrong.
    Toxic {
        /// Over this Toxiproxy.
        api: SocketAddr,
        /// On these ways.
        ways: Vec<Id>,
        /// By toxics of these names.
        names: Vec<Id>,
    },
}

impl Trace {
    /// What a fault will leave. Changes nothing; what is known not to work is said here.
    pub fn of(fault: &Fault) -> Result<Self, String> {
        Ok(match fault {
            Fault::Stop { containers } => Self::Stopped { containers: containers.clone() },
            Fault::Cpu { containers, cores } => Self::Limited { had: quota::read(containers, *cores)? },
            Fault::Disk { containers, pod, folder, .. } => {
                Self::Filled { containers: containers.clone(), pod: pod.clone(), folder: folder.clone() }
            }
            Fault::Cut { containers } if cut::has_own_network(containers)? => {
                Self::Cut { containers: containers.clone() }
            }
            Fault::Cut { .. } => return Err("the pod uses the machine's own network (hostNetwork)".into()),
            Fault::CutMachine { towards } => Self::MachineCut { interfaces: cut::uplinks(*towards)? },
            Fault::Toxics { api, ways, toxics } => {
                ways.iter().try_for_each(|way| toxics::find_way(*api, way))?;
                let names = toxics.iter().map(|one| one.name.clone()).collect();
                Self::Toxic { api: *api, ways: ways.clone(), names }
            }
        })
    }

    /// Does it, and says what was done; a failure half-way leaves nothing.
    pub fn begin(&self, fault: &Fault) -> Result<Value, String> {
        // Files and filters are all or nothing by themselves: what is there then may be somebody else's.
        let let_go = |error| self.undo().and(Err(error));
        match (fault, self) {
            (Fault::Stop { containers }, _) => {
                stop::stop(containers).map(|count| json!({"processes": count})).or_else(let_go)
            }
            (Fault::Cpu { containers, cores }, _) => {
                let lowered = quota::lower(containers, *cores);
                lowered.map(|()| json!({"containers": containers.len()})).or_else(let_go)
            }
            (Fault::Disk { containers, folder, bytes, leave_bytes, leave_shared_bytes, .. }, _) => {
                let (bytes, leave_bytes, leave_shared_bytes) = (*bytes, *leave_bytes, *leave_shared_bytes);
                let room = Room { bytes, leave_bytes, leave_shared_bytes };
                Ok(json!({"bytes": fill::fill(containers, folder, room)?}))
            }
            (Fault::Cut { containers }, _) => Ok(json!({"interfaces": cut::cut_pod(containers)?})),
            (Fault::CutMachine { .. }, Self::MachineCut { interfaces }) => {
                Ok(json!({"interfaces": cut::cut_machine(interfaces)?}))
            }
            (Fault::CutMachine { .. }, _) => Err("no interface to cut".into()),
            (Fault::Toxics { api, ways, toxics }, _) => {
                let put = toxics::put_all(*api, ways, toxics);
                put.map(|()| json!({"ways": ways.len()})).or_else(let_go)
            }
        }
    }

    /// Undoes it, however often: what is undone, or gone, needs nothing.
    pub fn undo(&self) -> Result<(), String> {
        match self {
            Self::Stopped { containers } => stop::resume(containers),
            Self::Limited { had } => quota::give_back(had),
            Self::Filled { containers, pod, folder } => fill::empty(containers, pod, folder),
            Self::Cut { containers } => cut::mend_pod(containers),
            Self::MachineCut { interfaces } => cut::mend_machine(interfaces),
            Self::Toxic { api, ways, names } => toxics::take_all_away(*api, ways, names),
        }
    }

    /// Whether the connection to whoever asked for it ends with it, so that this alone undoes nothing.
    pub fn cuts_us_off(&self) -> bool {
        matches!(self, Self::MachineCut { .. })
    }
}
