//! `towtank-engine`: run a job, check one, compact its records, work for somebody elsewhere, guard local processes.
use std::process::ExitCode;

fn main() -> ExitCode {
    towtank_engine::cli::main()
}
