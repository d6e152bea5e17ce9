//! Waits for events, to the nanosecond.
//!
//! There is `unsafe` here for one system call: rustix falls back to `epoll_pwait`, which rounds every timeout up to
//! whole milliseconds, unless it is built for kernels from 5.11 on only. Here `epoll_pwait2` is tried, and where there is
//! none (older kernels, some container sandboxes) `ppoll` on the epoll descriptor is as precise for one more system call.
#![allow(unsafe_code, reason = "see above")]

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::fd::{AsRawFd, OwnedFd};
use std::cell::Cell;
use std::io;

/// Events taken from the kernel at once.
pub const EVENTS: usize = 512;

/// An epoll instance and room for its events.
pub struct Waiter {
    pub epoll: OwnedFd,
    events: Box<[libc::epoll_event; EVENTS]>,
    has_pwait2: Cell<bool>,
}

/// A socket became ready: epoll flags and the data that it was registered with.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub flags: u32,
    pub data: u64,
}

impl Waiter {
    pub fn new(epoll: OwnedFd) -> Self {
        let events = Box::new([libc::epoll_event { events: 0, u64: 0 }; EVENTS]);
        Self { epoll, events, has_pwait2: Cell::new(true) }
    }

    /// Waits for events until the timeout; calls `take` for each, and gives their number.
    pub fn wait(&mut self, timeout_ns: Option<u64>, take: impl FnMut(Event)) -> io::Result<usize> {
        let timeout = timeout_ns
            .map(|ns| Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ });
        let count =
            if self.has_pwait2.get() { self.pwait2(timeout.as_ref()) } else { self.ppoll(timeout.as_ref()) };
        let count = match count {
            Ok(count) => count,
            Err(error) => match error.raw_os_error() {
                Some(libc::EINTR) => 0,
                // EPERM is what a sandbox says to a system call that it does not know.
                Some(libc::ENOSYS | libc::EPERM) if self.has_pwait2.replace(false) => {
                    return self.wait(timeout_ns, take);
                }
                _ => return Err(error),
            },
        };
        self.events[..count].iter().map(|e| Event { flags: e.events, data: e.u64 }).for_each(take);
        Ok(count)
    }

    fn pwait2(&mut self, timeout: Option<&Timespec>) -> io::Result<usize> {
        let timeout = timeout.map(|t| libc::timespec { tv_sec: t.tv_sec, tv_nsec: t.tv_nsec });
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the descriptor is open as long as `self`; the kernel writes at most EVENTS entries into `events`,
        // which live as long; the timeout is null or lives until the call returns; there is no signal mask.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                self.events.as_mut_ptr(),
                EVENTS as libc::c_int,
                timeout,
                std::ptr::null::<libc::sigset_t>(),
                0_usize,
            )
        };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }

    fn ppoll(&mut self, timeout: Option<&Timespec>) -> io::Result<usize> {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        if timeout != Some(&at_once) {
            poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], timeout)?;
        }
        let mut events = Vec::with_capacity(EVENTS);
        epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&at_once))?;
        for (to, from) in self.events.iter_mut().zip(&events) {
            let (flags, data) = (from.flags, from.data);
            *to = libc::epoll_event { events: flags.bits(), u64: data.u64() };
        }
        Ok(events.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::reactor::{Bell, monotonic_ns};
    use rustix::event::epoll::{CreateFlags, EventData, EventFlags};

    #[test]
    fn both_ways_see_events_and_are_precise() {
        for has_pwait2 in [true, false] {
            let mut waiter = Waiter::new(epoll::create(CreateFlags::CLOEXEC).expect("epoll"));
            waiter.has_pwait2.set(has_pwait2);
            let late = |waiter: &mut Waiter| {
                let began = monotonic_ns();
                waiter.wait(Some(150_000), |_| panic!("no events")).expect("wait");
                monotonic_ns() - began
            };
            // The best of many, so that a busy machine does not matter.
            let best = (0..50).map(|_| late(&mut waiter)).min().expect("fifty");
            assert!((150_000..600_000).contains(&best), "{best} ns");
            let bell = Bell::new().expect("eventfd");
            let data = EventData::new_u64(7);
            epoll::add(&waiter.epoll, bell.fd(), data, EventFlags::IN | EventFlags::ET).expect("add");
            bell.ring();
            let mut seen = Vec::new();
            waiter.wait(None, |event| seen.push(event.data)).expect("wait");
            waiter.wait(Some(0), |event| seen.push(event.data)).expect("wait");
            assert_eq!(seen, [7]);
        }
    }
}
