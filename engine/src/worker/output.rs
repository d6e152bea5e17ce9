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
    /// From now on they go here.
    pub fn attach(&self, to: Box<dyn Write + Send>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(to);
    }

    /// Nobody is there any more.
    pub fn detach(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Sends an event.
    pub fn event(&self, event: &str, mut fields: Value) {
        if let Value::Object(map) = &mut fields {
            map.insert("event".into(), event.into());
        }
        self.line(fields.to_string().as_bytes());
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
