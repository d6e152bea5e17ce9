//! A target whose answers follow a script, to be measured by an engine whose measurements are known beforehand.
//!
//! One thread serves all connections, so that it is cheap beside the engine. It is late only when somebody takes its core, and it
//! knows by how much: from that a test tells a wrong measurement from a spoiled one.
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::net::sockopt::set_socket_linger;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use towtank_engine::transport::reactor::monotonic_ns;

const LISTENER: u64 = u64::MAX;
/// It looks at the clock at least as often, and notes how late it is.
const TICK_NS: u64 = 10_000_000;
/// A frozen server accepts nobody; whoever comes waits here.
const BACKLOG: i32 = 4096;

/// What a request gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// An answer with this status, after so many µs.
    Answer(u16, u64),
    /// The connection is reset.
    Reset,
    /// The connection is closed without an answer.
    Close,
    /// Nothing, ever.
    Stall,
}

/// What the server saw.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Number at the end of the path, and when it came in, in ns.
    pub requests: Vec<(u64, u64)>,
    /// How late answers and ticks were, in µs.
    pub late_us: Vec<u64>,
}

impl Seen {
    /// So many ‰ of answers and ticks were at most this late.
    pub fn late_us(&self, per_mille: usize) -> u64 {
        let mut late = self.late_us.clone();
        late.sort_unstable();
        late.get(late.len() * per_mille / 1000).copied().unwrap_or(0)
    }
}

/// Nothing is read, accepted or answered for a while.
#[derive(Clone, Copy)]
pub struct Freeze {
    /// After the first request.
    pub after: Duration,
    /// How long.
    pub length: Duration,
}

/// Runs until it is dropped.
pub struct Scripted {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
    thread: Option<JoinHandle<()>>,
}

impl Scripted {
    /// `script` is given the path without its last segment, and the number that is that segment.
    pub fn start(script: impl FnMut(&str, u64) -> Act + Send + 'static, freeze: Option<Freeze>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&listener, BACKLOG).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, seen) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Seen>>::default());
        let (stopped, shared) = (Arc::clone(&stop), Arc::clone(&seen));
        let run = move || {
            // Before others, where that is allowed; of this thread alone.
            let _ = rustix::process::nice(-10);
            let seen = Loop::new(listener, script, freeze).run(&stopped);
            *shared.lock().unwrap() = seen;
        };
        Self { address, stop, seen, thread: Some(std::thread::spawn(run)) }
    }

    /// For a job.
    pub fn at(&self) -> String {
        self.address.to_string()
    }

    /// Ends it, and gives what it saw.
    pub fn end(mut self) -> Seen {
        self.join();
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    fn join(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.join();
        }
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// One connection; answers that are due after it has gone find another number.
struct Peer {
    stream: TcpStream,
    received: Vec<u8>,
    number: u64,
}

/// Due time, slot, number of the connection, status.
type Pending = Reverse<(u64, usize, u64, u16)>;

struct Loop<S> {
    epoll: OwnedFd,
    listener: TcpListener,
    script: S,
    freeze: Option<Freeze>,
    began_ns: Option<u64>,
    peers: Vec<Option<Peer>>,
    free: Vec<usize>,
    accepted: u64,
    pending: BinaryHeap<Pending>,
    seen: Seen,
}

impl<S: FnMut(&str, u64) -> Act> Loop<S> {
    fn new(listener: TcpListener, script: S, freeze: Option<Freeze>) -> Self {
        let epoll = epoll::create(CreateFlags::CLOEXEC).unwrap();
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN).unwrap();
        Self {
            epoll,
            listener,
            script,
            freeze,
            began_ns: None,
            peers: Vec::new(),
            free: Vec::new(),
            accepted: 0,
            pending: BinaryHeap::new(),
            seen: Seen::default(),
        }
    }

    fn run(mut self, stop: &AtomicBool) -> Seen {
        let mut tick_ns = monotonic_ns() + TICK_NS;
        let mut events = Vec::with_capacity(256);
        while !stop.load(Ordering::Relaxed) {
            let due_ns = self.pending.peek().map_or(tick_ns, |p| p.0.0.min(tick_ns));
            let left_ns = due_ns.saturating_sub(monotonic_ns());
            let timeout = Timespec { tv_sec: 0, tv_nsec: left_ns as i64 };
            // poll takes ns, epoll_wait only ms.
            let _ = poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], Some(&timeout));
            let now_ns = monotonic_ns();
            if now_ns >= tick_ns {
                self.seen.late_us.push((now_ns - tick_ns) / 1000);
                tick_ns = now_ns + TICK_NS;
            }
            if self.freezes(now_ns) {
                tick_ns = monotonic_ns() + TICK_NS;
            }
            self.answer_due();
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            events.clear();
            epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&at_once)).unwrap();
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept(),
                    slot => self.read(slot as usize),
                }
            }
        }
        self.seen
    }

    fn freezes(&mut self, now_ns: u64) -> bool {
        let (Some(freeze), Some(began_ns)) = (self.freeze, self.began_ns) else { return false };
        if now_ns < began_ns + freeze.after.as_nanos() as u64 {
            return false;
        }
        self.freeze = None;
        std::thread::sleep(freeze.length);
        true
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(true).unwrap();
            stream.set_nodelay(true).unwrap();
            let slot = self.free.pop().unwrap_or_else(|| {
                self.peers.push(None);
                self.peers.len() - 1
            });
            epoll::add(&self.epoll, &stream, EventData::new_u64(slot as u64), EventFlags::IN).unwrap();
            self.accepted += 1;
            self.peers[slot] = Some(Peer { stream, received: Vec::new(), number: self.accepted });
        }
    }

    fn read(&mut self, slot: usize) {
        let mut buffer = [0; 4096];
        while let Some(peer) = &mut self.peers[slot] {
            match peer.stream.read(&mut buffer) {
                Ok(0) => return self.drop_peer(slot),
                Ok(n) => peer.received.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(_) => return self.drop_peer(slot),
            }
            self.requests(slot);
        }
    }

    fn drop_peer(&mut self, slot: usize) {
        if self.peers[slot].take().is_some() {
            self.free.push(slot);
        }
    }

    /// Every complete request that a connection has received.
    fn requests(&mut self, slot: usize) {
        let now_ns = monotonic_ns();
        while let Some(peer) = &mut self.peers[slot] {
            let Some(end) = peer.received.windows(4).position(|w| w == b"\r\n\r\n") else { return };
            let head: Vec<u8> = peer.received.drain(..end + 4).collect();
            let number = peer.number;
            let head = String::from_utf8_lossy(&head);
            let path = head.split(' ').nth(1).unwrap_or("/");
            let (kind, index) = path.rsplit_once('/').unwrap_or(("", "0"));
            let index = index.parse().unwrap_or(0);
            self.began_ns.get_or_insert(now_ns);
            self.seen.requests.push((index, now_ns));
            match (self.script)(kind, index) {
                Act::Answer(status, 0) => self.answer(slot, status),
                Act::Answer(status, us) => {
                    self.pending.push(Reverse((now_ns + us * 1000, slot, number, status)));
                }
                Act::Reset => {
                    set_socket_linger(&peer.stream, Some(Duration::ZERO)).unwrap();
                    self.drop_peer(slot);
                }
                Act::Close => self.drop_peer(slot),
                Act::Stall => {}
            }
        }
    }

    fn answer_due(&mut self) {
        while let Some(Reverse((due_ns, slot, number, status))) = self.pending.peek().copied() {
            let now_ns = monotonic_ns();
            if due_ns > now_ns {
                return;
            }
            self.pending.pop();
            self.seen.late_us.push((now_ns - due_ns) / 1000);
            if self.peers[slot].as_ref().is_some_and(|peer| peer.number == number) {
                self.answer(slot, status);
            }
        }
    }

    /// Answers are small: they fit into the socket, or the client has gone.
    fn answer(&mut self, slot: usize, status: u16) {
        let Some(peer) = &mut self.peers[slot] else { return };
        let text = format!("HTTP/1.1 {status} Status\r\ncontent-length: 2\r\n\r\nok");
        if peer.stream.write_all(text.as_bytes()).is_err() {
            self.drop_peer(slot);
        }
    }
}
