//! The load engine of Towtank.
//!
//! `schedule` says when, `journey` what, `transport` how; `record` keeps every request; `drive` joins them.
//! `echo` is what it measures itself against. `worker` makes it one of several that share a load;
//! `disturb` stands beside the system under test and makes its faults.
//! `agent` tells what a machine does meanwhile; all three are spoken to over `remote`.
pub mod agent;
pub mod build_info;
pub mod cli;
pub mod disturb;
pub mod drive;
pub mod echo;
pub mod guard;
pub mod job;
pub mod journey;
pub mod record;
pub mod remote;
pub mod rng;
pub mod schedule;
pub mod transport;
pub mod worker;
