//! `towtank-engine check JOB`.
use std::path::PathBuf;
use std::process::ExitCode;

/// Validate a job without running it; prints all its problems at once, exit code 3 if there are any.
#[derive(clap::Args)]
pub struct Args {
    /// The job, a JSON file.
    pub job: PathBuf,
}

/// Entry point.
pub fn main(_args: &Args) -> ExitCode {
    ExitCode::from(super::EXIT_FAILED)
}
