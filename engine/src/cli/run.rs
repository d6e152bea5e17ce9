//! `towtank-engine run JOB`.
use super::{EXIT_BAD_JOB, EXIT_FAILED, EXIT_OK};
use crate::drive::{self, Events, Lifeline};
use crate::job::Job;
use crate::journey::Plan;
use std::path::PathBuf;
use std::process::ExitCode;

/// Carry out a job: events on stdout, control on stdin, records next to `output`.
///
/// stdin is lifeline and control: the run starts on `{"start_at_ns": null}` and stops when stdin ends, with everything
/// kept. SIGTERM and SIGHUP (unless it is ignored: nohup) stop it in the same way, and by hand so does Ctrl-C. A terminal gives no start and `</dev/null` ends at once: by hand, use --no-lifeline.
#[derive(clap::Args)]
pub struct Args {
    /// The job, a JSON file.
    pub job: PathBuf,
    /// Ignore stdin: start at once, run until the schedule ends.
    #[arg(long)]
    pub no_lifeline: bool,
}

/// Entry point.
pub fn main(args: &Args) -> ExitCode {
    let mut events = Events::stdout();
    let plan = match Job::from_file(&args.job).and_then(Plan::new) {
        Ok(plan) => plan,
        Err(problems) => {
            super::check::report(&mut events, &problems);
            return ExitCode::from(EXIT_BAD_JOB);
        }
    };
    let lifeline = if args.no_lifeline { Lifeline::None } else { Lifeline::Stdin };
    let result = drive::run(plan, lifeline, events);
    ExitCode::from(if result.is_ok() { EXIT_OK } else { EXIT_FAILED })
}
