//! What a machine does while a load is on: its counters each interval, and its containers as they start and end.
//!
//! docs/telemetry.md. An agent reads /proc and /sys of the host that it stands on, keeps the last minutes, and hands out
//! what is asked for, from a number on: a connection that breaks loses nothing. Times are of its monotonic clock.
mod ceph;
mod group_watch;
mod groups;
mod host;
mod nfs;
mod number;
mod ring;
pub mod serve;
mod session;

#[cfg(test)]
mod damaged_tests;

use std::path::PathBuf;

/// Where the host's own view of itself is.
#[derive(Clone, Debug)]
pub struct Roots {
    /// Its `/proc`.
    pub proc: PathBuf,
    /// Its `/sys`.
    pub sys: PathBuf,
    /// A folder with admin sockets of ceph-fuse.
    pub ceph_sockets: Option<PathBuf>,
}
