//! Events on their way to stdout, written by a thread of its own: requests never wait for whoever reads them.

use crate::protocol::Event;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Where events go.
#[derive(Clone, Debug)]
pub struct Events {
    to: Sender<Event>,
    waiting: Arc<AtomicUsize>,
}

/// The thread that writes them.
#[derive(Debug)]
pub struct Writer(JoinHandle<()>);

impl Events {
    /// Events to `out`, and the thread that writes them there.
    pub fn to(out: impl Write + Send + 'static) -> (Self, Writer) {
        let (to, from) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let count = waiting.clone();
        let writer = std::thread::spawn(move || write_all(out, &from, &count));
        (Self { to, waiting }, Writer(writer))
    }

    /// One more; nobody listening is no error.
    pub fn send(&self, event: Event) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _ = self.to.send(event);
    }

    /// Has all been written? If not, whoever reads is slow, and what can be joined should be.
    pub fn all_written(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0
    }
}

impl Writer {
    /// Waits until every event is written. All [`Events`] must be gone.
    pub fn finish(self) {
        let _ = self.0.join();
    }
}

fn write_all(mut out: impl Write, from: &Receiver<Event>, waiting: &AtomicUsize) {
    let mut is_open = true;
    for event in from {
        if let (true, Ok(mut line)) = (is_open, serde_json::to_vec(&event)) {
            line.push(b'\n');
            is_open = out.write_all(&line).and_then(|()| out.flush()).is_ok();
        }
        waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_is_gone_does_not_matter() {
        let (read, write) = std::io::pipe().unwrap();
        drop(read);
        let (events, writer) = Events::to(write);
        for _ in 0..3 {
            events.send(Event::Error { message: "x".to_owned() });
        }
        drop(events);
        writer.finish();
    }

    #[test]
    fn what_nobody_reads_is_known_to_wait() {
        let (read, write) = std::io::pipe().unwrap();
        let (events, writer) = Events::to(write);
        // More than any pipe holds.
        for _ in 0..3 {
            events.send(Event::Error { message: "x".repeat(1 << 20) });
        }
        assert!(!events.all_written());
        let waiting = events.waiting.clone();
        drop(events);
        let lines = std::io::BufRead::lines(std::io::BufReader::new(read)).count();
        writer.finish();
        assert_eq!((lines, waiting.load(Ordering::Relaxed)), (3, 0));
    }
}
