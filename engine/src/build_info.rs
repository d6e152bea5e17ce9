//! What this binary is: stored with every run, so that a debug build never passes for a measurement.

/// Version of the crate.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// "release" or "debug".
pub const PROFILE: &str = env!("TOWTANK_PROFILE");
/// Version of the compiler.
pub const RUSTC: &str = env!("TOWTANK_RUSTC");
/// Target triple.
pub const TARGET: &str = env!("TOWTANK_TARGET");
/// Commit of the source, "" outside of a repository.
pub const COMMIT: &str = env!("TOWTANK_COMMIT");
/// How the engine waits for its sockets.
pub const BACKEND: &str = "epoll";

/// One line for `--version`.
pub const VERSION_LINE: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("TOWTANK_PROFILE"),
    ", epoll, ",
    env!("TOWTANK_TARGET"),
    ", ",
    env!("TOWTANK_RUSTC"),
    ", commit ",
    env!("TOWTANK_COMMIT"),
    ")"
);

/// The `build` object of the `ready` event.
pub fn json() -> serde_json::Value {
    serde_json::json!({"profile": PROFILE, "rustc": RUSTC, "target": TARGET, "commit": COMMIT})
}
