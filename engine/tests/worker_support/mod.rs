//! A worker as a process, and the other end of its connection.
#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses its part of it")]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use towtank_engine::remote::frame::{self, Frame};
use towtank_engine::remote::handshake::{Nonces, Token, Who};

pub const TOKEN: &str = "0123456789abcdef-of-the-tests";
/// Longer than anything here takes on a busy machine; what waits for it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A worker; killed when it is dropped.
pub struct Worker {
    pub child: Child,
    pub address: String,
    pub dir: tempfile::TempDir,
}

impl Worker {
    pub fn start(deadline_s: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let parent = dir.path().to_str().unwrap().to_owned();
        Self::start_as(dir, &["worker", "--deadline-s", &deadline_s.to_string(), "--dir", &parent])
    }

    /// An agent of this machine, with the same token.
    pub fn start_agent(interval_ms: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self::start_as(dir, &["agent", "--interval-ms", &interval_ms.to_string()])
    }

    fn start_as(dir: tempfile::TempDir, words: &[&str]) -> Self {
        let token = dir.path().join("token");
        std::fs::write(&token, format!("{TOKEN}\n")).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_towtank-engine"))
            .args(words)
            .args(["--listen", "127.0.0.1:0", "--token-file"])
            .arg(&token)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(said["event"], "listening");
        Self { child, address: said["address"].as_str().unwrap().to_owned(), dir }
    }

    /// A connection that has not said anything yet.
    pub fn knock(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// A connection that was let in, and what it was welcomed with. That the one before it has ended takes a moment to notice.
    pub fn connect(&self) -> (Orders, Value) {
        let until = Instant::now() + PATIENCE;
        loop {
            let mut orders = Orders(self.knock());
            orders.hello(TOKEN);
            let said = orders.next();
            if said["event"] == "welcome" {
                return (orders, said);
            }
            assert!(said["event"] == "refused" && Instant::now() < until, "{said}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// How it ended: exit code, and its last words.
    pub fn ended(mut self) -> (Option<i32>, String) {
        let mut words = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut words).unwrap();
        (self.child.wait().unwrap().code(), words)
    }

    /// Names in the folder that it makes its own in.
    pub fn left(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        names.filter(|name| name != "token").collect()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Who gives orders.
pub struct Orders(pub TcpStream);

impl Orders {
    /// Answers the hello of the worker with what `token` proves; gives both nonces.
    pub fn hello(&mut self, token: &str) -> Nonces {
        let hello = self.next();
        let nonces =
            Nonces { worker: hello["nonce"].as_str().unwrap().to_owned(), orchestrator: "ab".repeat(32) };
        let proof = Token::new(token.as_bytes()).unwrap().proof(Who::Orchestrator, &nonces);
        self.say(&json!({"protocol": 1, "nonce": nonces.orchestrator, "proof": proof}));
        nonces
    }

    pub fn say(&mut self, message: &Value) {
        frame::say(&mut self.0, message).unwrap();
    }

    /// The next message.
    pub fn next(&mut self) -> Value {
        self.try_next().expect("a message")
    }

    /// The next message; none when the connection has ended.
    pub fn try_next(&mut self) -> Option<Value> {
        match frame::read(&mut self.0, frame::MESSAGE_BYTES) {
            Ok(Frame::Message(message)) => Some(serde_json::from_slice(&message).unwrap()),
            Ok(Frame::Piece(_)) => panic!("a piece"),
            Err(_) => None,
        }
    }

    /// The next message of a kind.
    pub fn hear(&mut self, kind: &str) -> Value {
        loop {
            let message = self.next();
            if message["event"] == kind {
                return message;
            }
            assert!(
                !["error", "refused", "ended"].contains(&message["event"].as_str().unwrap()),
                "{message}"
            );
        }
    }

    /// Hands a job over, as one worker's part of it.
    pub fn job(&mut self, job: &Value, worker: u64, of: u64) {
        let bytes = job.to_string().into_bytes();
        let about = json!({"bytes": bytes.len(), "crc32": crc32fast::hash(&bytes)});
        self.say(&json!({"do": "job", "job": about, "part": {"worker": worker, "of": of}, "files": []}));
        frame::write_piece(&mut self.0, &bytes).unwrap();
    }

    /// The worker's clock, now.
    pub fn now_ns(&mut self) -> u64 {
        self.say(&json!({"do": "clock", "sent_ns": 5}));
        let clock = self.hear("clock");
        assert_eq!(clock["sent_ns"], 5);
        assert!(clock["received_ns"].as_u64() <= clock["answered_ns"].as_u64());
        clock["answered_ns"].as_u64().unwrap()
    }

    /// Orders a start that is to come.
    pub fn start(&mut self) {
        let at_ns = self.now_ns() + 300_000_000;
        self.say(&json!({"do": "start", "at_ns": at_ns}));
        assert_eq!(self.hear("started")["start_ns"].as_u64(), Some(at_ns));
    }

    /// All of a log from an offset on.
    pub fn fetch(&mut self, name: &str, offset: u64) -> Vec<u8> {
        self.say(&json!({"do": "fetch", "name": name, "offset": offset}));
        let mut content = Vec::new();
        loop {
            match frame::read(&mut self.0, frame::MESSAGE_BYTES).unwrap() {
                Frame::Piece(piece) => content.extend(piece),
                Frame::Message(message) => {
                    let message: Value = serde_json::from_slice(&message).unwrap();
                    if message["event"] == "clock" {
                        continue;
                    }
                    assert_eq!(
                        (&message["event"], &message["bytes"]),
                        (&json!("fetched"), &json!(content.len()))
                    );
                    return content;
                }
            }
        }
    }

    /// Sends bytes that are no frame.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }
}
