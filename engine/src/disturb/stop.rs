//! Stopping every process of containers, and letting them go on.
//!
//! SIGSTOP rather than a frozen control group: a stopped process still can be killed, so that a kubelet whose probe fails
//! ends the container as it would end any that hangs; of a group that version 1 has frozen nothing can be ended.
use super::find;
use super::orders::Id;
use crate::guard::process::{Pinned, Stat};
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// What is asleep in the kernel stops when it wakes up.
const STOPPED_WITHIN: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Stops all of them; how many there are. A process that starts another meanwhile is looked for again.
pub fn stop(containers: &[Id]) -> Result<usize, String> {
    find::one_of(containers)?;
    let until = Instant::now() + STOPPED_WITHIN;
    loop {
        let found = find::processes(containers);
        let running: Vec<&Stat> = found.iter().filter(|stat| !matches!(stat.state, 'T' | 't')).collect();
        if running.is_empty() || Instant::now() >= until {
            return Ok(found.len());
        }
        for stat in running {
            signal(stat.pid, containers, Signal::STOP)?;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Lets all of them go on; containers that are gone need nothing.
pub fn resume(containers: &[Id]) -> Result<(), String> {
    find::processes(containers).iter().try_for_each(|stat| signal(stat.pid, containers, Signal::CONT))
}

fn signal(pid: i32, containers: &[Id], signal: Signal) -> Result<(), String> {
    let Some(pinned) = Pinned::new(pid, |pid| find::is_process_of(pid, containers)) else { return Ok(()) };
    pinned.signal(signal).map(drop).map_err(|e| format!("process {pid} cannot be signalled: {e}"))
}
