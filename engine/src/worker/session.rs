//! One connection, from its first order to its end.
use super::carrier::{Carrier, Stage};
use super::intake::{self, IntakeError, LOGS};
use super::logs;
use super::orders::Order;
use super::output::Output;
use crate::remote::frame::{self, Frame, FrameError, MESSAGE_BYTES};
use crate::transport::reactor::monotonic_ns;
use serde_json::json;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How a connection ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// All was fetched.
    Finished,
    /// Cut off, or of no more use; why.
    Lost(String),
}

/// What a session works with.
pub struct Session<'a> {
    /// The load.
    pub carrier: &'a Arc<Carrier>,
    /// Answers.
    pub output: &'a Output,
    /// When something was heard last, on the monotonic clock.
    pub heard_ns: &'a AtomicU64,
}

impl Session<'_> {
    /// Carries out orders until there are no more. What breaks the rules ends it.
    pub fn run(&self, from: &mut impl Read) -> End {
        loop {
            let received = frame::read(from, MESSAGE_BYTES);
            let received_ns = monotonic_ns();
            self.heard_ns.store(received_ns, Ordering::Relaxed);
            let order = match received {
                Ok(Frame::Message(message)) => serde_json::from_slice(&message),
                Ok(Frame::Piece(_)) => return self.broken("a piece of a file that nobody asked for"),
                Err(error) => return self.lost(&error),
            };
            match order {
                Ok(Order::Finish {}) => {
                    self.output.event("bye", json!({}));
                    return End::Finished;
                }
                Ok(order) => {
                    if let Err(end) = self.obey(order, received_ns, from) {
                        return end;
                    }
                }
                Err(error) => return self.broken(&format!("no order: {error}")),
            }
        }
    }

    fn obey(&self, order: Order, received_ns: u64, from: &mut impl Read) -> Result<(), End> {
        match order {
            Order::Clock { sent_ns } => {
                // The moment of answering is taken last.
                let fields =
                    json!({"sent_ns": sent_ns, "received_ns": received_ns, "answered_ns": monotonic_ns()});
                self.output.event("clock", fields);
            }
            Order::Job { job, part, files } => {
                if !matches!(self.carrier.stage(), Stage::Idle) {
                    return Err(self.broken("a second job; a worker carries out one"));
                }
                let from = &mut Heard { from, heard_ns: self.heard_ns };
                match intake::take(from, self.carrier.folder(), job, part, &files) {
                    Ok(()) => {}
                    Err(IntakeError::Frame(error)) => return Err(self.lost(&error)),
                    Err(IntakeError::Bad(message)) => return Err(self.broken(&message)),
                }
                if let Err(error) = self.carrier.begin() {
                    return Err(self.broken(&format!("the load cannot be started: {error}")));
                }
            }
            Order::Start { at_ns } => {
                if let Err(message) = self.carrier.start(at_ns) {
                    self.refuse(&message);
                }
            }
            Order::Stop {} => self.carrier.stop(),
            Order::Fetch { name, offset } => self.fetch(&name, offset),
            Order::Finish {} => {}
        }
        Ok(())
    }

    fn fetch(&self, name: &str, offset: u64) {
        let Stage::Ended { logs, .. } = self.carrier.stage() else {
            return self.refuse("the load has not ended; its logs are not whole");
        };
        let Some(log) = logs.iter().find(|log| log.name == name) else {
            let known: Vec<_> = logs.iter().map(|log| log.name.as_str()).collect();
            return self.refuse(&format!("there is no log {name:?}; there are {}", known.join(", ")));
        };
        if offset > log.bytes {
            return self.refuse(&format!("{name} has {} bytes; {offset} is beyond its end", log.bytes));
        }
        if let Err(error) = logs::send(&self.carrier.folder().join(LOGS), log, offset, self.output) {
            self.refuse(&format!("{name} cannot be read: {error}"));
        }
    }

    fn refuse(&self, message: &str) {
        self.output.event("refused", json!({"message": message}));
    }

    /// Somebody does not speak as agreed: nothing that it says can be relied on.
    fn broken(&self, message: &str) -> End {
        self.output.event("error", json!({"message": message}));
        End::Lost(message.to_owned())
    }

    fn lost(&self, error: &FrameError) -> End {
        match error {
            FrameError::TooLong { .. } | FrameError::Kind(_) => self.broken(&error.to_string()),
            other => End::Lost(other.to_string()),
        }
    }
}

/// Notes that something is heard also while a large file comes in.
struct Heard<'a, R> {
    from: &'a mut R,
    heard_ns: &'a AtomicU64,
}

impl<R: Read> Read for Heard<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.heard_ns.store(monotonic_ns(), Ordering::Relaxed);
        self.from.read(buffer)
    }
}
