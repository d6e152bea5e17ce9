//! `towtank-engine serve`: a target for `towtank doctor --engine`.
use super::guard::print_line;
use crate::echo;
use serde_json::json;
use std::net::{Ipv4Addr, TcpListener};
use std::process::ExitCode;

/// Answer every request on a free port of the loopback interface with the same short body, until stdin ends.
#[derive(clap::Args)]
pub struct Args {
    /// Bytes of the body of each answer.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(..=16 << 20))]
    pub body_bytes: u32,
}

/// Entry point.
pub fn main(args: &Args) -> ExitCode {
    end_with_stdin();
    let mut answer = Vec::new();
    echo::respond(
        &mut answer,
        "200 OK",
        "content-type: text/plain\r\n",
        &vec![b'x'; args.body_bytes as usize],
    );
    let served = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| {
        print_line(&json!({"event": "serving", "port": listener.local_addr()?.port()}));
        echo::serve(listener, |_, out| out.extend_from_slice(&answer))
    });
    if let Err(error) = served {
        print_line(&json!({"event": "error", "message": format!("cannot serve: {error}")}));
    }
    ExitCode::from(super::EXIT_FAILED)
}

/// Whoever started us has gone when stdin ends.
fn end_with_stdin() {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(super::EXIT_OK.into());
    });
}
