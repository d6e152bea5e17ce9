//! The command line: one file per subcommand, each with its arguments and a `main`.
pub mod agent;
pub mod check;
pub mod compact;
pub mod disturb;
pub mod guard;
pub mod remote;
pub mod run;
pub mod serve;
pub mod sweep;
pub mod worker;

use crate::build_info::VERSION_LINE;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Everything went as asked.
pub const EXIT_OK: u8 = 0;
/// The run could not be carried out.
pub const EXIT_FAILED: u8 = 1;
/// The job (or the command line: clap exits with 2) is wrong.
pub const EXIT_BAD_JOB: u8 = 3;

/// The load engine of Towtank: exact schedules, every request kept.
#[derive(Parser)]
#[command(name = "towtank-engine", version = VERSION_LINE)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Args),
    Check(check::Args),
    Compact(compact::Args),
    Disturb(disturb::Args),
    Guard(guard::Args),
    Sweep(sweep::Args),
    Worker(worker::Args),
    Agent(agent::Args),
    #[command(hide = true)]
    Serve(serve::Args),
}

/// Parses the command line and carries it out.
pub fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run(args) => run::main(&args),
        Command::Check(args) => check::main(&args),
        Command::Compact(args) => compact::main(&args),
        Command::Disturb(args) => disturb::main(&args),
        Command::Guard(args) => guard::main(&args),
        Command::Sweep(args) => sweep::main(&args),
        Command::Worker(args) => worker::main(&args),
        Command::Agent(args) => agent::main(&args),
        Command::Serve(args) => serve::main(&args),
    }
}
