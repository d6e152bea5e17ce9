//! Carries out what stdin says, line by line, each before the next.

use super::admission::Admission;
use super::probe;
use crate::instances::Added;
use crate::protocol::{Command, Event};
use std::io::BufRead;
use std::sync::Arc;
use tokio::runtime::Handle;

/// Carries out every line until the last; what is wrong with one is told as an event, and changes nothing.
pub fn obey(lines: impl BufRead, admission: &Arc<Admission>, runtime: &Handle) {
    for line in lines.split(b'\n') {
        // A pipe that breaks is the same as its end.
        let Ok(line) = line else { return };
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let done = serde_json::from_slice(&line)
            .map_err(|error| format!("{error}; the line is {:?}", String::from_utf8_lossy(&line)))
            .and_then(|command| carry_out(command, admission, runtime));
        if let Err(message) = done {
            admission.events().send(Event::Error { message });
        }
    }
}

fn carry_out(command: Command, admission: &Arc<Admission>, runtime: &Handle) -> Result<(), String> {
    match command {
        Command::Limits(change) => {
            admission.with(|dispatch, _| dispatch.change(&change));
            Ok(())
        }
        Command::Add { instance, address, concurrency, probe } => {
            if let Some(path) =
                probe.as_ref().and_then(|probe| probe.path.as_deref()).filter(|path| !probe::is_path(path))
            {
                return Err(format!(
                    "instance {instance:?}: the probe's path {path:?} is none; it begins with / and has no spaces"
                ));
            }
            let added = Added { name: instance, address, concurrency, probe };
            if let Some(task) = admission.with(|dispatch, now_ns| dispatch.add(added, now_ns))? {
                runtime.spawn(probe::run(admission.clone(), task));
            }
            Ok(())
        }
        Command::Drain { instance } => admission.with(|dispatch, now_ns| dispatch.drain(&instance, now_ns)),
        Command::Remove { instance } => admission.with(|dispatch, now_ns| dispatch.remove(&instance, now_ns)),
    }
}
