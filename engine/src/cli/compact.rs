//! `towtank-engine compact DIR OUT`.
use super::guard::print_line;
use crate::record::compact::compact;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Merge the logs of a run into one sorted Parquet file and delete them; repeating it is harmless.
#[derive(clap::Args)]
pub struct Args {
    /// The folder with `thread-N.log`.
    pub dir: PathBuf,
    /// The Parquet file to make.
    pub out: PathBuf,
}

/// Entry point.
pub fn main(args: &Args) -> ExitCode {
    match compact(&args.dir, &args.out) {
        Ok(done) => {
            print_line(&json!({
                "event": "compacted", "path": done.path, "rows": done.rows, "bytes": done.bytes, "crc32": done.crc32,
                "log_bytes": done.log_bytes, "torn_logs": done.torn_logs, "already_done": done.already_done,
            }));
            ExitCode::from(super::EXIT_OK)
        }
        Err(error) => {
            print_line(&json!({"event": "error", "message": error.to_string()}));
            ExitCode::from(super::EXIT_FAILED)
        }
    }
}
