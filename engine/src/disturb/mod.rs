//! Disturbs what runs on this machine: stops containers, takes their CPU away, fills their volumes, cuts them off;
//! and, beside a Toxiproxy, lets calls go wrong.
//!
//! docs/faults.md. It stands on the nodes of a cluster, where the orchestrator has no hands. One connection is one fault: it
//! is undone when that is asked, at its deadline, when the connection ends, on a signal, and, where the process was killed, by
//! the next one that starts, which finds it in the journal.
mod cut;
mod fill;
mod find;
mod held;
mod journal;
mod netlink;
mod orders;
mod quota;
pub mod serve;
mod session;
mod stop;
mod toxics;
mod trace;
