//! One connection to an agent: questions and their answers, until it ends.
use super::ring::Ring;
use crate::remote::frame::{self, Frame, FrameError, MESSAGE_BYTES};
use crate::transport::reactor::monotonic_ns;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::io::{Read, Write};

/// What an agent is asked; docs/formats.md.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
enum Question {
    /// What time it is.
    Clock {
        /// When this was sent, on the clock of the sender; it is sent back.
        sent_ns: u64,
    },
    /// What was seen after the item of this number.
    Take {
        /// 0: from the beginning.
        after: u64,
    },
    /// Nothing any more.
    Finish {},
}

#[derive(Serialize)]
struct Answer<T> {
    event: &'static str,
    #[serde(flatten)]
    fields: T,
}

/// Says who it is, and answers until the other side ends the connection, or does not speak as agreed.
pub fn answer(stream: &mut (impl Read + Write), welcome: &Value, ring: &Ring) -> Result<(), FrameError> {
    frame::say(stream, welcome)?;
    loop {
        let received = frame::read(stream, MESSAGE_BYTES);
        let received_ns = monotonic_ns();
        let question = match received {
            Ok(Frame::Message(message)) => serde_json::from_slice(&message).map_err(|e| e.to_string()),
            Ok(Frame::Piece(_)) => Err("a piece of a file".to_owned()),
            Err(FrameError::Ended) => return Ok(()),
            Err(error) => return Err(error),
        };
        match question {
            Ok(Question::Clock { sent_ns }) => {
                // The moment of answering is taken last.
                let fields =
                    json!({"sent_ns": sent_ns, "received_ns": received_ns, "answered_ns": monotonic_ns()});
                say(stream, "clock", fields)?;
            }
            Ok(Question::Take { after }) => say(stream, "taken", ring.after(after))?,
            Ok(Question::Finish {}) => return say(stream, "bye", json!({})),
            Err(message) => {
                return say(stream, "refused", json!({"message": format!("no question: {message}")}));
            }
        }
    }
}

fn say(stream: &mut impl Write, event: &'static str, fields: impl Serialize) -> Result<(), FrameError> {
    let message = serde_json::to_vec(&Answer { event, fields }).map_err(std::io::Error::from)?;
    Ok(frame::write_message(stream, &message)?)
}
