//! TLS 1.2 and 1.3 over a socket.
//!
//! The library is used without its own buffers: what comes in is decrypted in a buffer that all connections of a thread
//! share, and what goes out is encrypted into another. An idle connection holds keys and nothing else.
mod config;
mod handshake;
mod stream;
mod verify;
mod words;

pub use config::{compile, for_thread};
pub use handshake::Step;
pub use stream::{Buffers, Failure, TlsStream};
pub use words::words;
