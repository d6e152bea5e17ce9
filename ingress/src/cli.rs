//! The command line.

use crate::build_info::VERSION_LINE;
use crate::serve::proxy::AddedHeaders;
use crate::serve::{self, Settings};
use clap::Parser;
use http::header::HeaderName;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

/// Stand in front of the instances of one local deployment: told on stdin, telling on stdout, one JSON object a line.
#[derive(Parser)]
#[command(name = "towtank-ingress", version = VERSION_LINE)]
struct Args {
    /// Where to listen; loopback only, port 0 = any that is free.
    #[arg(long, default_value = "127.0.0.1:0", value_parser = loopback)]
    listen: SocketAddr,
    /// Threads that carry requests.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// What requests in flight have when stdin ends.
    #[arg(long, default_value_t = 5000)]
    grace_ms: u64,
    /// How long a connection to an instance is kept; below what common servers keep theirs (2 s and more), so that none
    /// closes one in the very moment in which it is used.
    #[arg(long, default_value_t = 1500)]
    upstream_idle_ms: u64,
    /// Header of answers: which instance made it, or `ingress`.
    #[arg(long)]
    instance_header: Option<HeaderName>,
    /// Header of answers: how long the request was held, in µs.
    #[arg(long)]
    held_header: Option<HeaderName>,
    /// Header of answers: whether the request had to wait for its instance to start.
    #[arg(long)]
    cold_header: Option<HeaderName>,
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr =
        text.parse().map_err(|_| "not an address with a port, such as 127.0.0.1:0".to_owned())?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err("only loopback is allowed, such as 127.0.0.1:0".to_owned())
    }
}

/// Parses the command line and serves.
pub fn main() -> ExitCode {
    let args = Args::parse();
    let settings = Settings {
        listen: args.listen,
        threads: args.threads.into(),
        grace: Duration::from_millis(args.grace_ms),
        upstream_idle: Duration::from_millis(args.upstream_idle_ms),
        headers: AddedHeaders {
            instance: args.instance_header,
            held: args.held_header,
            cold: args.cold_header,
        },
    };
    match serve::run(settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("towtank-ingress: cannot serve on {}: {error}; is the port in use?", args.listen);
            ExitCode::FAILURE
        }
    }
}
