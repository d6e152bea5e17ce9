//! The way the engine does it: edge-triggered epoll, a read and a write for each request.
use crate::{Bench, REQUEST};
use std::io;
use std::os::fd::AsRawFd;
use std::time::Instant;

pub fn run(bench: &Bench) -> io::Result<u64> {
    // SAFETY: plain system calls on descriptors that `bench` keeps open; buffers outlive the calls.
    unsafe {
        let epoll = libc::epoll_create1(libc::EPOLL_CLOEXEC);
        let mut got = vec![0_usize; bench.sockets.len()];
        for (slot, socket) in bench.sockets.iter().enumerate() {
            socket.set_nonblocking(true)?;
            let mut event =
                libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: slot as u64 };
            libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, socket.as_raw_fd(), &raw mut event);
            libc::send(socket.as_raw_fd(), REQUEST.as_ptr().cast(), REQUEST.len(), libc::MSG_NOSIGNAL);
        }
        let mut events: Vec<libc::epoll_event> = vec![libc::epoll_event { events: 0, u64: 0 }; 512];
        let mut buffer = [0_u8; 4096];
        let mut requests = 0;
        while Instant::now() < bench.until {
            let count = libc::epoll_wait(epoll, events.as_mut_ptr(), 512, 100);
            for event in &events[..count.max(0) as usize] {
                let slot = event.u64 as usize;
                let fd = bench.sockets[slot].as_raw_fd();
                let n = libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), 0);
                if n <= 0 {
                    return Err(io::Error::other("the server closed a connection"));
                }
                got[slot] += n as usize;
                if got[slot] >= bench.answer_bytes {
                    got[slot] = 0;
                    requests += 1;
                    libc::send(fd, REQUEST.as_ptr().cast(), REQUEST.len(), libc::MSG_NOSIGNAL);
                }
            }
        }
        libc::close(epoll);
        Ok(requests)
    }
}
