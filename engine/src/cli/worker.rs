//! `towtank-engine worker`.
use super::guard::print_line;
use super::{EXIT_FAILED, EXIT_OK};
use crate::remote::handshake::Token;
use crate::worker::serve::{self, Terms};
use serde_json::json;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Take a part of a job over a connection, carry it out, and hand its records over; docs/workers.md.
#[derive(clap::Args)]
pub struct Args {
    /// Wait for whoever has the token on this address, such as 127.0.0.1:0.
    #[arg(long, value_name = "ADDRESS", requires = "token_file", required_unless_present = "stdio")]
    pub listen: Option<String>,
    /// The file with the token, 16 to 1024 bytes.
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub token_file: Option<PathBuf>,
    /// Talk over stdin and stdout instead: whoever started this is trusted.
    #[arg(long, conflicts_with = "listen")]
    pub stdio: bool,
    /// End after so many seconds, whatever happens.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=40 * 24 * 3600))]
    pub deadline_s: u64,
    /// Make the folder for jobs and records in this one.
    #[arg(long, value_name = "FOLDER", default_value_os_t = std::env::temp_dir())]
    pub dir: PathBuf,
}

/// Whoever started us looks for it on stdout.
fn say_where(address: SocketAddr) {
    print_line(&json!({"event": "listening", "address": address.to_string(), "pid": std::process::id()}));
}

/// Entry point.
pub fn main(args: &Args) -> ExitCode {
    let terms = Terms { deadline: Duration::from_secs(args.deadline_s), parent: args.dir.clone() };
    let served = match (&args.listen, &args.token_file) {
        (Some(address), Some(file)) => {
            Token::read(file).and_then(|token| serve::over_tcp(address, token, &terms, say_where))
        }
        _ => serve::over_stdio(&terms),
    };
    match served {
        Ok(()) => ExitCode::from(EXIT_OK),
        Err(message) => {
            eprintln!("towtank-engine worker: {message}");
            ExitCode::from(EXIT_FAILED)
        }
    }
}
