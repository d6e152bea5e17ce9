//! `towtank-engine worker`.
use super::remote::{Way, ended, say_where};
use crate::worker::serve::{self, Terms};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Take a part of a job over a connection, carry it out, and hand its records over; docs/workers.md.
#[derive(clap::Args)]
pub struct Args {
    /// How it is reached.
    #[command(flatten)]
    pub way: Way,
    /// End after so many seconds, whatever happens.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=40 * 24 * 3600))]
    pub deadline_s: u64,
    /// Make the folder for jobs and records in this one.
    #[arg(long, value_name = "FOLDER", default_value_os_t = std::env::temp_dir())]
    pub dir: PathBuf,
}

/// Entry point.
pub fn main(args: &Args) -> ExitCode {
    let terms = Terms { deadline: Duration::from_secs(args.deadline_s), parent: args.dir.clone() };
    let served = args.way.over_tcp().and_then(|tcp| match tcp {
        Some((address, token)) => serve::over_tcp(address, token, &terms, say_where),
        None => serve::over_stdio(&terms),
    });
    ended("worker", served)
}
