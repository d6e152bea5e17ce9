//! A server that does what a script says, a thread for each connection.
use rustix::net::sockopt::set_socket_linger;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// A connection, as the script sees it.
pub struct Peer {
    /// To answer.
    pub stream: TcpStream,
    reader: BufReader<TcpStream>,
    /// Number of the connection.
    pub number: usize,
}

/// A request, as it came in.
pub struct Request {
    /// Request line and headers.
    pub head: String,
    /// All of it.
    pub body: Vec<u8>,
}

impl Peer {
    /// The next request; none if the client has closed.
    pub fn request(&mut self) -> Option<Request> {
        let head = self.head()?;
        let length = length(&head);
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body).ok()?;
        Some(Request { head, body })
    }

    /// Request line and headers of the next request.
    pub fn head(&mut self) -> Option<String> {
        let mut head = String::new();
        loop {
            let before = head.len();
            if self.reader.read_line(&mut head).unwrap_or(0) == 0 {
                return None;
            }
            if &head[before..] == "\r\n" {
                return Some(head);
            }
        }
    }

    /// The body that belongs to a head.
    pub fn body(&mut self, head: &str) -> Vec<u8> {
        let mut body = vec![0; length(head)];
        self.reader.read_exact(&mut body).unwrap();
        body
    }

    /// Whether anything has come that was not read.
    pub fn has_more(&mut self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let more = !self.reader.buffer().is_empty() || self.stream.peek(&mut [0]).is_ok();
        self.stream.set_nonblocking(false).unwrap();
        more
    }

    /// Sends bytes; that nobody listens any more is no concern of a script.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).is_ok()
    }

    /// A complete answer.
    pub fn answer(&mut self, status: u16, body: &str) {
        let length = body.len();
        self.send(format!("HTTP/1.1 {status} Status\r\ncontent-length: {length}\r\n\r\n{body}"));
    }

    /// Ends the connection with a reset.
    pub fn reset(self) {
        set_socket_linger(&self.stream, Some(Duration::ZERO)).unwrap();
    }

    /// Waits until the client has closed.
    pub fn linger(&mut self) {
        let mut rest = [0; 4096];
        while self.reader.read(&mut rest).is_ok_and(|n| n > 0) {}
    }
}

fn length(head: &str) -> usize {
    head.lines().find_map(|l| l.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap())
}

/// Runs until it is dropped.
pub struct Server {
    pub address: SocketAddr,
    pub accepted: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

impl Server {
    /// Calls `script` for each connection.
    pub fn start(script: impl Fn(Peer) + Send + Sync + 'static) -> Self {
        Self::start_on("127.0.0.1:0", script)
    }

    /// As [`Server::start`], somewhere else.
    pub fn start_on(place: &str, script: impl Fn(Peer) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(place).unwrap();
        let address = listener.local_addr().unwrap();
        let (accepted, stop) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let (count, stopped, script) = (Arc::clone(&accepted), Arc::clone(&stop), Arc::new(script));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let stream = stream.unwrap();
                let number = count.fetch_add(1, Ordering::Relaxed);
                let reader = BufReader::new(stream.try_clone().unwrap());
                let script = Arc::clone(&script);
                std::thread::spawn(move || script(Peer { stream, reader, number }));
            }
        });
        Self { address, accepted, stop }
    }

    /// Answers every request of every connection with `answer`.
    pub fn answering(answer: impl Fn(&mut Peer, Request) + Send + Sync + 'static) -> Self {
        Self::start(move |mut peer| {
            while let Some(request) = peer.request() {
                answer(&mut peer, request);
            }
        })
    }

    /// For a job.
    pub fn at(&self) -> String {
        self.address.to_string()
    }

    /// Connections so far.
    pub fn connections(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Lets the listener see that it is over.
        let _ = TcpStream::connect(self.address);
    }
}
