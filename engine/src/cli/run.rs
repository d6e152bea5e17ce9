//! `towtank-engine run JOB`.
use std::path::PathBuf;
use std::process::ExitCode;

/// Carry out a job: events on stdout, control on stdin, records next to `output`.
///
/// stdin is lifeline and control: its end stops the run. By hand, from a terminal or a script, use --no-lifeline.
#[derive(clap::Args)]
pub struct Args {
    /// The job, a JSON file.
    pub job: PathBuf,
    /// Ignore stdin: start at once, run until the schedule ends.
    #[arg(long)]
    pub no_lifeline: bool,
}

/// Entry point.
pub fn main(_args: &Args) -> ExitCode {
    ExitCode::from(super::EXIT_FAILED)
}
