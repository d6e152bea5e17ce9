//! Where events go: to whoever is connected, if anybody is.
use crate::remote::frame;
use serde_json::{Value, json};
use std::io::Write;
use std::sync::{Mutex, PoisonError};

/// Shared by all threads of a worker. A message that cannot be sent is lost: the connection is of no more use then, and whoever comes
/// back is told how things stand.
#[derive(Default)]
pub struct Output(Mutex<Option<Box<dyn Write + Send>>>);

impl Output {
    /// From now on they go here, after a welcome that tells how things stand at this moment: what happens meanwhile waits, and comes next.
    pub fn attach(&self, mut to: Box<dyn Write + Send>, welcome: impl FnOnce() -> Value) {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let said = frame::say(&mut to, &named("welcome", welcome()));
        *place = said.is_ok().then_some(to);
    }

    /// Nobody is there any more.
    pub fn detach(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Sends an event.
    pub fn event(&self, event: &str, fields: Value) {
        self.line(named(event, fields).to_string().as_bytes());
    }

    /// Sends an event that is written already. One that is longer than a message may be is none of ours.
    pub fn line(&self, line: &[u8]) {
        if line.len() > frame::MESSAGE_BYTES {
            return self.event(
                "error",
                json!({"message": format!("an event of {} bytes was left out", line.len())}),
            );
        }
        self.send(|to| frame::write_message(to, line));
    }

    /// Sends a piece of a file.
    pub fn piece(&self, piece: &[u8]) {
        self.send(|to| frame::write_piece(to, piece));
    }

    fn send(&self, write: impl FnOnce(&mut Box<dyn Write + Send>) -> std::io::Result<()>) {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(to) = place.as_mut()
            && write(to).is_err()
        {
            *place = None;
        }
    }
}

fn named(event: &str, mut fields: Value) -> Value {
    if let Value::Object(map) = &mut fields {
        map.insert("event".into(), event.into());
    }
    fields
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::remote::frame::{Frame, MESSAGE_BYTES, read};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    #[test]
    fn what_happens_during_a_welcome_comes_after_it() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let output = Output::default();
        std::thread::scope(|scope| {
            output.attach(Box::new(ours), || {
                scope.spawn(|| output.event("ended", json!({"code": 0})));
                std::thread::sleep(Duration::from_millis(50));
                json!({"stage": "started"})
            });
        });
        let heard: Vec<Value> = std::iter::repeat_with(|| match read(&mut theirs, MESSAGE_BYTES) {
            Ok(Frame::Message(message)) => serde_json::from_slice(&message).unwrap(),
            _ => panic!("no message"),
        })
        .take(2)
        .collect();
        assert_eq!(
            heard,
            [json!({"event": "welcome", "stage": "started"}), json!({"event": "ended", "code": 0})]
        );
    }
}
