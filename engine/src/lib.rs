//! The load engine of Towtank.
//!
//! `schedule` says when, `journey` what, `transport` how; `record` keeps every request; `drive` joins them.
pub mod build_info;
pub mod cli;
pub mod drive;
pub mod guard;
pub mod job;
pub mod journey;
pub mod record;
pub mod rng;
pub mod schedule;
pub mod transport;
