//! The clock of a reactor.
use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;

/// Real, or moved along by the reactor itself: then a test of a long schedule takes no time.
#[derive(Debug)]
pub enum Clock {
    /// `CLOCK_MONOTONIC`.
    Monotonic,
    /// Jumps to the next timer whenever nothing is ready. Sockets do not work with it.
    Virtual(Cell<u64>),
}

impl Clock {
    /// A virtual clock that starts at `now_ns`.
    pub fn virtual_at(now_ns: u64) -> Self {
        Self::Virtual(Cell::new(now_ns))
    }

    /// Now, in ns.
    pub fn read(&self) -> u64 {
        match self {
            Self::Monotonic => monotonic_ns(),
            Self::Virtual(now) => now.get(),
        }
    }

    pub(super) fn is_virtual(&self) -> bool {
        matches!(self, Self::Virtual(_))
    }

    /// Moves a virtual clock; without a timer nothing can ever happen again, so that is an error of the test.
    pub(super) fn advance(&self, by_ns: Option<u64>) {
        if let Self::Virtual(now) = self {
            let by_ns = by_ns.expect("tasks wait for nothing that a virtual clock could bring");
            now.set(now.get() + by_ns);
        }
    }
}

/// `CLOCK_MONOTONIC` in ns.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
