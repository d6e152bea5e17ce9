//! `towtank-engine sweep`.
use super::guard::{plain_name, print_line};
use crate::guard::sweep::sweep;
use serde_json::json;
use std::process::ExitCode;

/// End what a killed guard has left: processes in its cgroup or with its token, and the cgroup.
#[derive(clap::Args)]
pub struct Args {
    /// The guard's token.
    #[arg(long, value_parser = plain_name)]
    pub token: String,
    /// The guard's cgroup.
    #[arg(long, value_parser = plain_name)]
    pub cgroup: Option<String>,
}

/// Entry point.
pub fn main(args: &Args) -> ExitCode {
    let swept = sweep(&args.token, args.cgroup.as_deref());
    print_line(&json!({"event": "swept", "killed": swept.killed}));
    if swept.survivors.is_empty() && swept.remaining.is_empty() {
        return ExitCode::from(super::EXIT_OK);
    }
    let message = format!("processes {:?} and cgroups {:?} remain", swept.survivors, swept.remaining);
    print_line(&json!({"event": "error", "message": message}));
    ExitCode::from(super::EXIT_FAILED)
}
