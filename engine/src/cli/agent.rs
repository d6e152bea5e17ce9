//! `towtank-engine agent`.
use super::guard::print_line;
use super::{EXIT_FAILED, EXIT_OK};
use crate::agent::Roots;
use crate::agent::serve::{self, Terms};
use crate::remote::handshake::Token;
use serde_json::json;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Tell what this machine does: its counters each interval, its containers as they start and end; docs/telemetry.md.
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

/// Whoever started us looks for it on stdout.
fn say_where(address: SocketAddr) {
    print_line(&json!({"event": "listening", "address": address.to_string(), "pid": std::process::id()}));
}

/// Entry point.
pub fn main(args: &Args) -> ExitCode {
    let roots =
        Roots { proc: args.proc.clone(), sys: args.sys.clone(), ceph_sockets: args.ceph_sockets.clone() };
    let terms = Terms { roots, interval: Duration::from_millis(args.interval_ms) };
    let served = match (&args.listen, &args.token_file) {
        (Some(address), Some(file)) => {
            Token::read(file).and_then(|token| serve::over_tcp(address, token, terms, say_where))
        }
        _ => serve::over_stdio(terms),
    };
    match served {
        Ok(()) => ExitCode::from(EXIT_OK),
        Err(message) => {
            eprintln!("towtank-engine agent: {message}");
            ExitCode::from(EXIT_FAILED)
        }
    }
}
