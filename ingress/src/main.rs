//! `towtank-ingress`: hold, limit, spread and count the requests of one local deployment.
use std::process::ExitCode;

fn main() -> ExitCode {
    towtank_ingress::cli::main()
}
