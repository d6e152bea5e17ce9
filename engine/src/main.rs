//! `towtank-engine`: run a job, check one, compact its records, guard local processes.
use std::process::ExitCode;

fn main() -> ExitCode {
    towtank_engine::cli::main()
}
