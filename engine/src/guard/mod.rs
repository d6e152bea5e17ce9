//! Runs the processes of local deployments and ends every one of them; docs/formats.md, section 3.
//!
//! The guard is a small process of its own between towtank and what towtank deploys: when towtank dies, however it
//! dies, the guard's stdin ends, and the guard ends everything it has started. What it starts can not get away from
//! it: each instance has its own session and, where permitted, its own cgroup from its first instruction on, and
//! orphans come back to the guard, because it is a subreaper. If the guard itself is killed, [`sweep`] finds what is
//! left by cgroup and by token.
//!
//! It is single-threaded: one `poll` over signals, commands and the output of the instances, without a timeout when
//! nothing is about to end, so that it costs nothing while a run is measured.

mod capture;
pub mod cgroup;
mod channel;
mod ending;
mod instance;
mod log_times;
pub mod process;
pub mod protocol;
mod spawn;
pub mod supervisor;
pub mod sweep;

/// The variable that marks every process of ours.
pub const TOKEN_VARIABLE: &str = "TOWTANK_TOKEN";
/// The variable that says which instance a process belongs to; needed where there are no cgroups.
pub const INSTANCE_VARIABLE: &str = "TOWTANK_INSTANCE";

/// Ids and cgroup names become names of directories: nothing that could leave one.
pub fn is_plain_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !name.is_empty() && name.len() <= 128 && !name.starts_with('.') && name.chars().all(allowed)
}
