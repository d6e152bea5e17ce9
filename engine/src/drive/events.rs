//! stdout: one JSON object a line.
use super::findings::Finding;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};
use std::io::Write;

/// Where events go.
pub struct Events(Box<dyn Write + Send>);

impl Events {
    /// To stdout.
    pub fn stdout() -> Self {
        Self(Box::new(std::io::stdout()))
    }

    /// Somewhere else.
    pub fn to(writer: impl Write + Send + 'static) -> Self {
        Self(Box::new(writer))
    }

    /// Writes an event. That nobody reads it is no reason to lose records: failures are ignored.
    pub fn emit(&mut self, event: &str, mut fields: Value) {
        if let Value::Object(map) = &mut fields {
            map.insert("event".into(), event.into());
        }
        let _ = writeln!(self.0, "{fields}");
        let _ = self.0.flush();
    }

    /// Writes an event only if nobody has to wait for that.
    pub fn emit_or_drop(&mut self, event: &str, fields: Value) {
        let stdout = std::io::stdout();
        let mut fds = [PollFd::new(&stdout, PollFlags::OUT)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut fds, Some(&at_once)) != Ok(0) {
            self.emit(event, fields);
        }
    }

    /// Writes a finding.
    pub fn finding(&mut self, finding: &Finding) {
        let Finding { name, t_us, value, message, advice } = finding;
        self.emit(
            "finding",
            json!({"name": name, "t_us": t_us, "value": value, "message": message, "advice": advice}),
        );
    }
}
