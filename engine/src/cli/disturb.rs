//! `towtank-engine disturb`.
use super::remote::{ended, say_where};
use crate::disturb::serve;
use crate::remote::handshake::Token;
use std::path::PathBuf;
use std::process::ExitCode;

/// Stop, cut off, fill or starve containers of this machine when asked to over a connection, and undo it; docs/faults.md.
#[derive(clap::Args)]
pub struct Args {
    /// Wait for whoever has the token on this address, such as 127.0.0.1:0.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: String,
    /// The file with the token, 16 to 1024 bytes.
    #[arg(long, value_name = "FILE")]
    pub token_file: PathBuf,
    /// What is on is noted in this folder, so that it is undone though this process was killed.
    #[arg(long, value_name = "FOLDER", default_value = "/run/towtank/disturb")]
    pub journal: PathBuf,
    /// A process that sees all of the machine: its mounts, its network, its control groups.
    #[arg(long, value_name = "PID", default_value_t = 1)]
    pub machine: i32,
}

/// Entry point.
pub fn main(args: &Args) -> ExitCode {
    let served = Token::read(&args.token_file).and_then(|token| {
        serve::over_tcp(&args.listen, token, &args.journal, args.machine, |address, left| {
            for problem in left {
                eprintln!("towtank-engine disturb: what another one has left could not be undone: {problem}");
            }
            say_where(address);
        })
    });
    ended("disturb", served)
}
