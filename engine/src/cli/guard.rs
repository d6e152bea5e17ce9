//! `towtank-engine guard`.
use crate::guard::protocol::Event;
use crate::guard::{is_plain_name, supervisor};
use std::io::Write;
use std::process::ExitCode;

/// Run local processes on command (stdin) and end every one of them when stdin ends.
#[derive(clap::Args)]
pub struct Args {
    /// Marks every process of ours: `TOWTANK_TOKEN` in its environment.
    #[arg(long, value_parser = plain_name)]
    pub token: String,
    /// Name of the guard's cgroup, not in use by another guard; without it there are no limits.
    #[arg(long, value_parser = plain_name)]
    pub cgroup: Option<String>,
}

/// Names that go into paths and environments.
pub(super) fn plain_name(name: &str) -> Result<String, String> {
    if is_plain_name(name) {
        Ok(name.to_owned())
    } else {
        Err("letters, digits, '.', '_' and '-' only".to_owned())
    }
}

/// Entry point.
pub fn main(args: &Args) -> ExitCode {
    match supervisor::run(&args.token, args.cgroup.as_deref()) {
        Ok(()) => ExitCode::from(super::EXIT_OK),
        Err(error) => {
            print_line(&Event::Error { message: error.to_string() });
            ExitCode::from(super::EXIT_FAILED)
        }
    }
}

/// One JSON object on stdout; nobody listening is no error.
pub(super) fn print_line(value: &impl serde::Serialize) {
    if let Ok(mut line) = serde_json::to_vec(value) {
        line.push(b'\n');
        let _ = std::io::stdout().write_all(&line);
    }
}
