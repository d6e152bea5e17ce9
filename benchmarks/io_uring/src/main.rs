//! Whether io_uring would make the engine cheaper: the least that a load generator does, once over epoll and once over
//! io_uring. `io-uring-experiment epoll|uring|uring-multishot PORT CONNECTIONS SECONDS` prints one JSON object.
//!
//! All three do the same: keep-alive connections with one request in flight each, the same bytes sent, an answer of a size
//! that is known after the first one, nothing recorded, nothing parsed. What differs is how the kernel is asked.
//! `unsafe` is all over it, since both ways are raw system interfaces here; nothing of it goes into the engine as it is.
mod epoll;
mod uring;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

pub const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";

/// What a way is given: connections on which one request was already answered, and the size of that answer.
pub struct Bench {
    pub sockets: Vec<TcpStream>,
    pub answer_bytes: usize,
    pub until: Instant,
}

fn connect(port: u16, connections: usize) -> std::io::Result<(Vec<TcpStream>, usize)> {
    let mut size = 0;
    let mut sockets = Vec::new();
    for _ in 0..connections {
        let mut socket = TcpStream::connect(("127.0.0.1", port))?;
        socket.set_nodelay(true)?;
        socket.write_all(REQUEST)?;
        let mut buffer = [0; 4096];
        size = socket.read(&mut buffer)?;
        sockets.push(socket);
    }
    Ok((sockets, size))
}

/// User and system CPU of this process so far, µs.
fn cpu_us() -> (f64, f64) {
    // SAFETY: a zeroed rusage is a valid one, and the kernel fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let us = |t: libc::timeval| t.tv_sec as f64 * 1e6 + t.tv_usec as f64;
    (us(usage.ru_utime), us(usage.ru_stime))
}

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize| arguments.get(at).and_then(|a| a.parse::<u64>().ok()).expect("a number");
    let (sockets, answer_bytes) = connect(number(2) as u16, number(3) as usize)?;
    let bench = Bench { sockets, answer_bytes, until: Instant::now() + Duration::from_secs(number(4)) };
    let before = cpu_us();
    let requests = match arguments[1].as_str() {
        "epoll" => epoll::run(&bench)?,
        "uring" => uring::run(&bench, false)?,
        "uring-multishot" => uring::run(&bench, true)?,
        other => panic!("{other} is not a way; there are epoll, uring and uring-multishot"),
    };
    let after = cpu_us();
    println!(
        "{{\"requests\": {requests}, \"user_us\": {:.0}, \"system_us\": {:.0}}}",
        after.0 - before.0,
        after.1 - before.1
    );
    Ok(())
}
