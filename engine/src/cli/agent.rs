//! `towtank-engine agent`.
use super::remote::{Way, ended, say_where};
use crate::agent::Roots;
use crate::agent::serve::{self, Terms};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Tell what this machine does: its counters each interval, its containers as they start and end; docs/telemetry.md.
#[derive(clap::Args)]
pub struct Args {
    /// How it is reached.
    #[command(flatten)]
    pub way: Way,
    /// Time between two readings, ms.
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(10..=3_600_000))]
    pub interval_ms: u64,
    /// The host's /proc.
    #[arg(long, value_name = "FOLDER", default_value = "/proc")]
    pub proc: PathBuf,
    /// The host's /sys.
    #[arg(long, value_name = "FOLDER", default_value = "/sys")]
    pub sys: PathBuf,
    /// A folder with admin sockets (*.asok) of ceph-fuse.
    #[arg(long, value_name = "FOLDER")]
    pub ceph_sockets: Option<PathBuf>,
}

/// Entry point.
pub fn main(args: &Args) -> ExitCode {
    let roots =
        Roots { proc: args.proc.clone(), sys: args.sys.clone(), ceph_sockets: args.ceph_sockets.clone() };
    let terms = Terms { roots, interval: Duration::from_millis(args.interval_ms) };
    let served = args.way.over_tcp().and_then(|tcp| match tcp {
        Some((address, token)) => serve::over_tcp(address, token, terms, say_where),
        None => serve::over_stdio(terms),
    });
    ended("agent", served)
}
