//! Priority of the load threads.
//!
//! A nice value alone does little where the kernel groups processes by session (autogroup): it then only counts within
//! the engine's own session. So a run under a lifeline makes itself a session and raises that. And a thread with
//! priority asks for short slices, so that it runs when a timer ends and not when another's slice does (Linux 6.12;
//! older kernels ignore it). That has no safe binding, which is why there is `unsafe` here.
#![allow(unsafe_code, reason = "see above")]

use rustix::process::{getpid, getsid, setpriority_process, setsid};
use std::io;

/// A tenth of the kernel's own, and far more than a request takes.
const SLICE_NS: u64 = 100_000;

/// `struct sched_attr` of the kernel, in its first version.
#[repr(C)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Nice value and, if that is a priority, short slices for the calling thread.
pub fn set_thread(nice: i32) -> io::Result<()> {
    // On Linux "this process" means the calling thread.
    setpriority_process(None, nice)?;
    if nice < 0 {
        let attr = SchedAttr {
            size: size_of::<SchedAttr>() as u32,
            policy: libc::SCHED_OTHER as u32,
            flags: 0,
            nice,
            priority: 0,
            runtime: SLICE_NS,
            deadline: 0,
            period: 0,
        };
        // SAFETY: the kernel reads `size` bytes of `attr`, which lives until the call returns; 0 is the calling thread.
        // That it cannot be had changes nothing but the last millisecond: no error.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
    }
    Ok(())
}

/// Gives this process a session of its own and raises that, until [`reset_session`].
pub fn raise_session(nice: i32) {
    // It fails for the leader of a group, which is in a session of its own only if it leads that too.
    let _ = setsid();
    if getsid(None) == Ok(getpid()) {
        set_session(nice);
    }
}

/// What comes after the load has no priority.
pub fn reset_session() {
    if getsid(None) == Ok(getpid()) {
        set_session(0);
    }
}

/// Where there are no groups there is no such file; where it is not permitted, the thread says so.
fn set_session(nice: i32) {
    let _ = std::fs::write("/proc/self/autogroup", nice.to_string());
}
