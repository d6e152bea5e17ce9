//! Joins schedule, journey, transport and record: threads, virtual users, stop rules, self-checks.
//!
//! A load thread ([`worker`]) is a reactor with a task for every closed user ([`user`]) or for every open workload and
//! each of its sessions ([`arrivals`]). The main thread ([`run`]) only watches: it reads counters, prints events, and
//! takes orders from stdin.
mod arrivals;
mod asked;
mod control;
mod converse;
mod drafts;
mod events;
mod findings;
mod histogram;
mod iteration;
mod machine;
mod monitor;
mod priority;
mod pulse;
mod recorder;
mod replies;
mod run;
mod stats;
mod summary;
mod user;
mod worker;

pub use control::Lifeline;
pub use events::Events;
pub use histogram::Histogram;
pub use run::{expected_due, run};

#[cfg(test)]
mod tests;
