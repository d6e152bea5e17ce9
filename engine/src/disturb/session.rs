//! One connection, which is one fault: begun when it is asked for, and undone when that is asked, at its deadline, or when
//! the connection ends, whichever is first.
use super::held::{Held, HeldAll};
use super::orders::{Fault, Order};
use crate::build_info;
use crate::remote::frame::{self, Frame, FrameError, GREETING_BYTES};
use serde_json::json;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Whoever was let in says within this what it wants.
const ORDER_WITHIN: Duration = Duration::from_secs(30);
/// The kernel asks a silent connection after so long whether anybody is there, so often, and then gives it up.
const ASK_AFTER: Duration = Duration::from_secs(3);
const ASK_EVERY: Duration = Duration::from_secs(2);
const ASK_TIMES: u32 = 3;
/// What was sent arrives before the machine is cut off.
const ARRIVES_WITHIN: Duration = Duration::from_millis(50);

/// The life of a connection that was let in.
pub fn run(held: &HeldAll, mut stream: TcpStream, proof: &str) {
    let welcome = json!({
        "event": "welcome", "proof": proof, "engine": build_info::VERSION, "pid": std::process::id(),
        "host": rustix::system::uname().nodename().to_string_lossy(),
    });
    if watch_the_other_end(&stream).is_err() || frame::say(&mut stream, &welcome).is_err() {
        return;
    }
    let (fault, until) = match next(&mut stream, ORDER_WITHIN) {
        Ok(Order::Begin { fault, lasts_ms }) => (fault, Instant::now() + Duration::from_millis(lasts_ms)),
        Ok(Order::Undo {}) => return refuse(&mut stream, "nothing was begun"),
        Err(error) => return refuse(&mut stream, &error.to_string()),
    };
    match held.note(&fault) {
        Ok(one) => hold(&one, &fault, until, &mut stream),
        Err(message) => refuse(&mut stream, &message),
    }
}

fn hold(held: &Held, fault: &Fault, until: Instant, stream: &mut TcpStream) {
    let alone = held.cuts_us_off();
    if alone {
        // Nothing could be said afterwards.
        let _ = frame::say(stream, &json!({"event": "began", "facts": {}}));
        // The kernel's questions would go unanswered, too, and the connection be given up before the time is over.
        let _ = rustix::net::sockopt::set_socket_keepalive(&*stream, false);
        std::thread::sleep(ARRIVES_WITHIN);
    }
    match held.begin(fault) {
        Ok(facts) if !alone => {
            let _ = frame::say(stream, &json!({"event": "began", "facts": facts}));
        }
        Ok(_) => {}
        Err(message) => return refuse(stream, &message),
    }
    let why = wait(stream, until, alone);
    match held.undo() {
        Ok(()) => {
            let _ = frame::say(stream, &json!({"event": "undone", "why": why}));
        }
        Err(message) => refuse(stream, &message),
    }
}

/// Until it is to be undone; why.
fn wait(stream: &mut TcpStream, until: Instant, alone: bool) -> &'static str {
    match next(stream, until.saturating_duration_since(Instant::now())) {
        Ok(Order::Undo {}) => "asked",
        Err(Lost::Silent) => "deadline",
        Ok(Order::Begin { .. }) | Err(Lost::Gone(_)) if !alone => "lost",
        // Whoever asked cannot be heard: it comes back when the time is over.
        Ok(Order::Begin { .. }) | Err(Lost::Gone(_)) => {
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
            "deadline"
        }
    }
}

/// Why no order came.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error("no order came in time")]
    Silent,
    #[error("{0}")]
    Gone(String),
}

fn next(stream: &mut TcpStream, within: Duration) -> Result<Order, Lost> {
    let gone = |error: &dyn std::fmt::Display| Lost::Gone(error.to_string());
    if within.is_zero() {
        return Err(Lost::Silent);
    }
    stream.set_read_timeout(Some(within)).map_err(|e| gone(&e))?;
    match frame::read(stream, GREETING_BYTES) {
        Ok(Frame::Message(message)) => {
            serde_json::from_slice(&message).map_err(|e| Lost::Gone(format!("no order: {e}")))
        }
        Ok(Frame::Piece(_)) => Err(Lost::Gone("a piece of a file that nobody asked for".into())),
        Err(FrameError::Io(error)) if is_silence(error.kind()) => Err(Lost::Silent),
        Err(error) => Err(gone(&error)),
    }
}

/// Whether the time to wait is over, and not the connection: one that the kernel gives up for want of answers ends with
/// `TimedOut`, long before the deadline of a machine that is cut off.
fn is_silence(kind: ErrorKind) -> bool {
    kind == ErrorKind::WouldBlock
}

/// A machine that vanishes ends no connection; the kernel notices that nobody answers.
fn watch_the_other_end(stream: &TcpStream) -> rustix::io::Result<()> {
    use rustix::net::sockopt;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, ASK_AFTER)?;
    sockopt::set_tcp_keepintvl(stream, ASK_EVERY)?;
    sockopt::set_tcp_keepcnt(stream, ASK_TIMES)
}

fn refuse(stream: &mut TcpStream, message: &str) {
    let _ = frame::say(stream, &json!({"event": "refused", "message": message}));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    #[test]
    fn waiting_in_vain_is_silence_and_a_connection_that_is_given_up_is_none() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut stream =
            TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout");
        let error = stream.read(&mut [0]).expect_err("nobody speaks");
        assert!(is_silence(error.kind()), "{error}");
        let given_up = std::io::Error::from_raw_os_error(rustix::io::Errno::TIMEDOUT.raw_os_error());
        assert!(!is_silence(given_up.kind()), "{given_up}");
    }
}
