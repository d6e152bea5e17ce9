//! What subcommands have in common that are spoken to over a connection: how they are reached, where they listen, how they end.
use super::guard::print_line;
use super::{EXIT_FAILED, EXIT_OK};
use crate::remote::handshake::Token;
use serde_json::json;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

#[allow(missing_docs, reason = "clap would show it in place of what the subcommand says of itself")]
#[derive(clap::Args)]
pub struct Way {
    /// Wait for whoever has the token on this address, such as 127.0.0.1:0.
    #[arg(long, value_name = "ADDRESS", requires = "token_file", required_unless_present = "stdio")]
    pub listen: Option<String>,
    /// The file with the token, 16 to 1024 bytes.
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub token_file: Option<PathBuf>,
    /// Talk over stdin and stdout instead: whoever started this is trusted.
    #[arg(long, conflicts_with = "listen")]
    pub stdio: bool,
}

impl Way {
    /// Where to listen, and for whom; none is over stdin and stdout.
    pub(super) fn over_tcp(&self) -> Result<Option<(&str, Token)>, String> {
        match (&self.listen, &self.token_file) {
            (Some(address), Some(file)) => Ok(Some((address, Token::read(file)?))),
            _ => Ok(None),
        }
    }
}

/// Whoever started us looks for it on stdout.
pub(super) fn say_where(address: SocketAddr) {
    print_line(&json!({"event": "listening", "address": address.to_string(), "pid": std::process::id()}));
}

/// How a subcommand ends that has served; why it failed is said on stderr.
pub(super) fn ended(subcommand: &str, served: Result<(), String>) -> ExitCode {
    match served {
        Ok(()) => ExitCode::from(EXIT_OK),
        Err(message) => {
            eprintln!("towtank-engine {subcommand}: {message}");
            ExitCode::from(EXIT_FAILED)
        }
    }
}
