//! `towtank-engine check JOB`.
use super::{EXIT_BAD_JOB, EXIT_OK};
use crate::drive::{Events, expected_due};
use crate::job::{Job, Problem};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Validate a job without running it; prints all its problems at once, exit code 3 if there are any.
#[derive(clap::Args)]
pub struct Args {
    /// The job, a JSON file.
    pub job: PathBuf,
}

/// Entry point.
pub fn main(args: &Args) -> ExitCode {
    let mut events = Events::stdout();
    match Job::from_file(&args.job) {
        Ok(job) => {
            events.emit("ok", json!({"due": expected_due(&job), "duration_us": job.duration_us()}));
            ExitCode::from(EXIT_OK)
        }
        Err(problems) => {
            report(&mut events, &problems);
            ExitCode::from(EXIT_BAD_JOB)
        }
    }
}

/// Writes an `error` event for each problem.
pub(super) fn report(events: &mut Events, problems: &[Problem]) {
    for Problem { path, message } in problems {
        let path = (!path.is_empty()).then_some(path);
        events.emit("error", json!({"path": path, "message": message}));
    }
}
