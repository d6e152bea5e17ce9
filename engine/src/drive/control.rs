//! Orders: from stdin to the load threads.
use super::findings::{Note, tell};
use crate::transport::reactor::Bell;
use serde::Deserialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{BufRead, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

/// Where orders come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifeline {
    /// stdin; its end stops the run.
    Stdin,
    /// None: the run starts at once and ends with its schedule.
    None,
}

/// An order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Start at a point of the monotonic clock, or at once.
    Start(Option<u64>),
    /// End and keep everything.
    Stop,
    /// The lifeline has ended: as [`Order::Stop`].
    Eof,
    /// A line that is no order.
    Unknown(String),
}

/// Stops the load threads.
#[derive(Default)]
pub struct Control {
    stopped: AtomicBool,
    bells: Vec<Arc<Bell>>,
}

impl Control {
    /// Of threads that listen to these bells.
    pub fn new(bells: Vec<Arc<Bell>>) -> Self {
        Self { stopped: AtomicBool::new(false), bells }
    }

    /// Cuts off all load.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.bells.iter().for_each(|bell| bell.ring());
    }

    /// Whether it was.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(default)]
    start_at_ns: StartAt,
    stop: Option<bool>,
}

/// Tells null from absent.
#[derive(Default)]
enum StartAt {
    #[default]
    Absent,
    Given(Option<u64>),
}

impl<'de> Deserialize<'de> for StartAt {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Option::deserialize(from).map(Self::Given)
    }
}

/// Understands a line; none if it says nothing.
fn parse(line: &str) -> Option<Order> {
    if line.trim().is_empty() {
        return None;
    }
    match serde_json::from_str::<Line>(line) {
        Ok(Line { stop: Some(true), .. }) => Some(Order::Stop),
        Ok(Line { start_at_ns: StartAt::Given(at), .. }) => Some(Order::Start(at)),
        Ok(_) => None,
        Err(error) => Some(Order::Unknown(format!("not an order: {error}"))),
    }
}

/// Reads stdin on a thread of its own, which lives as long as the process.
pub fn listen(notes: Sender<Note>) -> std::io::Result<()> {
    let read = move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if let Some(order) = parse(&line) {
                tell(&notes, Note::Order(order));
            }
        }
        tell(&notes, Note::Order(Order::Eof));
    };
    std::thread::Builder::new().name("lifeline".into()).spawn(read).map(drop)
}

/// SIGTERM stops the run as an order does; so does SIGHUP (the terminal has gone), unless whoever started the engine has it ignored
/// (nohup), and by hand Ctrl-C. Under a lifeline Ctrl-C, which a terminal sends to all processes of a group, is left to whoever holds
/// the lifeline.
pub fn obey_signals(notes: Sender<Note>, lifeline: Lifeline) -> std::io::Result<()> {
    let (mut read, write) = UnixStream::pair()?;
    let stop = |signal| signal_hook::low_level::pipe::register(signal, write.try_clone()?).map(drop);
    stop(SIGTERM)?;
    if !is_ignored(SIGHUP) {
        stop(SIGHUP)?;
    }
    match lifeline {
        Lifeline::None => stop(SIGINT)?,
        Lifeline::Stdin => drop(signal_hook::flag::register(SIGINT, Arc::default())?),
    }
    let obey = move || {
        while read.read_exact(&mut [0]).is_ok() {
            tell(&notes, Note::Order(Order::Stop));
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(obey).map(drop)
}

/// Whether this process ignores a signal, as its parent had it. Where that cannot be read it does not.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_understood() {
        assert_eq!(parse(r#"{"start_at_ns": 5}"#), Some(Order::Start(Some(5))));
        assert_eq!(parse(r#"{"start_at_ns": null}"#), Some(Order::Start(None)));
        assert_eq!(parse(r#"{"stop": true}"#), Some(Order::Stop));
        assert_eq!((parse(""), parse("{}"), parse(r#"{"stop": false}"#)), (None, None, None));
        for bad in ["x", r#"{"go": 1}"#, r#"{"start_at_ns": -1}"#] {
            assert!(matches!(parse(bad), Some(Order::Unknown(_))), "{bad}");
        }
    }
}
