//! Who is at the other end: both sides show that they have the token, without sending it.
//!
//! Each side names a number that was never used before; the proof is the HMAC-SHA-256, under the token, of who proves and both
//! numbers. Proofs are compared in constant time.
use super::frame::{self, Frame, FrameError, GREETING_BYTES};
use ring::hmac;
use serde::Deserialize;
use serde_json::json;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::path::Path;

/// The protocol's version.
pub const PROTOCOL: u64 = 1;
/// A token that can be guessed is none.
const FEWEST_BYTES: usize = 16;
const MOST_BYTES: usize = 1024;
const NONCE_BYTES: usize = 32;

/// What orchestrator and workers of a run share, and nobody else knows.
pub struct Token(hmac::Key);

impl Token {
    /// From its text.
    pub fn new(text: &[u8]) -> Result<Self, String> {
        let text = text.trim_ascii();
        if (FEWEST_BYTES..=MOST_BYTES).contains(&text.len()) {
            return Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, text)));
        }
        Err(format!("a token of {} bytes; {FEWEST_BYTES} to {MOST_BYTES} are allowed", text.len()))
    }

    /// From a file.
    pub fn read(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let file = std::fs::File::open(path).map_err(|e| format!("cannot read {shown}: {e}"))?;
        let mut text = Vec::new();
        let bound = MOST_BYTES as u64 * 2;
        file.take(bound).read_to_end(&mut text).map_err(|e| format!("cannot read {shown}: {e}"))?;
        Self::new(&text).map_err(|message| format!("{shown}: {message}"))
    }

    /// What `who` shows to have it.
    pub fn proof(&self, who: Who, nonces: &Nonces) -> String {
        hex(hmac::sign(&self.0, &nonces.signed_by(who)).as_ref())
    }

    fn is_shown_by(&self, who: Who, nonces: &Nonces, proof: &str) -> bool {
        unhex(proof).is_some_and(|proof| hmac::verify(&self.0, &nonces.signed_by(who), &proof).is_ok())
    }
}

/// Which side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Whoever gives orders.
    Orchestrator,
    /// Who carries them out.
    Worker,
}

/// The numbers of both sides, as they were sent.
pub struct Nonces {
    /// The worker's.
    pub worker: String,
    /// The orchestrator's.
    pub orchestrator: String,
}

impl Nonces {
    /// What one side cannot have heard from the other.
    fn signed_by(&self, who: Who) -> Vec<u8> {
        let name = match who {
            Who::Orchestrator => "orchestrator",
            Who::Worker => "worker",
        };
        format!("towtank {PROTOCOL} {name} {} {}", self.worker, self.orchestrator).into_bytes()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hello {
    protocol: u64,
    nonce: String,
    proof: String,
}

/// Why somebody was not let in.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Said to the other side, in words that tell nothing about the token.
    #[error("{0}")]
    Told(String),
    /// Nothing could be said any more.
    #[error(transparent)]
    Gone(#[from] FrameError),
}

/// Lets in whoever has the token; gives the proof that we have it, too. Without a token the connection itself is trusted.
pub fn greet(stream: &mut (impl Read + Write), token: Option<&Token>) -> Result<String, Refused> {
    let worker = nonce().map_err(FrameError::Io)?;
    let hello = json!({"event": "hello", "protocol": PROTOCOL, "nonce": worker});
    frame::say(stream, &hello).map_err(FrameError::Io)?;
    let heard = frame::read(stream, GREETING_BYTES);
    let frame = heard.map_err(|error| tell(stream, error))?;
    check(frame, worker, token).map_err(|message| told(stream, message))
}

/// The other side is told what is wrong with its frame, as long as there is somebody.
fn tell(stream: &mut impl Write, error: FrameError) -> Refused {
    match error {
        FrameError::TooLong { .. } | FrameError::Kind(_) => told(stream, error.to_string()),
        other => Refused::Gone(other),
    }
}

fn told(stream: &mut impl Write, message: String) -> Refused {
    match frame::say(stream, &json!({"event": "refused", "message": message})) {
        Ok(()) => Refused::Told(message),
        Err(error) => FrameError::Io(error).into(),
    }
}

fn check(frame: Frame, worker: String, token: Option<&Token>) -> Result<String, String> {
    let Frame::Message(message) = frame else { return Err("a hello is expected first".into()) };
    let hello: Hello = serde_json::from_slice(&message).map_err(|e| format!("no hello: {e}"))?;
    if hello.protocol != PROTOCOL {
        return Err(format!("protocol {}; this engine speaks {PROTOCOL}", hello.protocol));
    }
    let Some(token) = token else { return Ok(String::new()) };
    if hello.nonce.len() != 2 * NONCE_BYTES {
        return Err(format!("a nonce of {} characters; {} are expected", hello.nonce.len(), 2 * NONCE_BYTES));
    }
    let nonces = Nonces { worker, orchestrator: hello.nonce };
    if !token.is_shown_by(Who::Orchestrator, &nonces, &hello.proof) {
        return Err("wrong token".into());
    }
    Ok(token.proof(Who::Worker, &nonces))
}

fn nonce() -> std::io::Result<String> {
    let mut bytes = [0; NONCE_BYTES];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nonces(worker: &str, orchestrator: &str) -> Nonces {
        Nonces { worker: worker.into(), orchestrator: orchestrator.into() }
    }

    #[test]
    fn a_proof_is_good_for_one_side_one_token_and_two_nonces() {
        let (token, other) =
            (Token::new(&[b'a'; 16]).expect("a token"), Token::new(&[b'b'; 16]).expect("a token"));
        let proof = token.proof(Who::Orchestrator, &nonces("1", "2"));
        assert!(token.is_shown_by(Who::Orchestrator, &nonces("1", "2"), &proof));
        assert!(!token.is_shown_by(Who::Worker, &nonces("1", "2"), &proof), "said back");
        assert!(!token.is_shown_by(Who::Orchestrator, &nonces("3", "2"), &proof), "said again");
        assert!(!other.is_shown_by(Who::Orchestrator, &nonces("1", "2"), &proof), "another token");
        for bad in ["", "zz", &proof[1..], &proof[2..]] {
            assert!(!token.is_shown_by(Who::Orchestrator, &nonces("1", "2"), bad), "{bad}");
        }
    }

    #[test]
    fn a_short_token_is_refused() {
        assert_eq!(
            Token::new(b" short\n").err().as_deref(),
            Some("a token of 5 bytes; 16 to 1024 are allowed")
        );
        assert!(Token::new(&[b'x'; 2000]).is_err());
    }
}
