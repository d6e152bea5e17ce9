//! Ports for servers that are told where to listen.
use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the range that the kernel takes ports of outgoing connections from: those of other tests would be in the way.
const FIRST: u32 = 12_000;
const COUNT: u32 = 18_000;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Ports that nobody listens on; none is given twice by this process, and others begin elsewhere.
pub fn free<const N: usize>() -> [u16; N] {
    std::array::from_fn(|_| free_port())
}

fn free_port() -> u16 {
    let begin = std::process::id().wrapping_mul(97);
    for _ in 0..COUNT {
        let port = (FIRST + begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free from {FIRST} on");
}
