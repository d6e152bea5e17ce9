//! Counters of a load thread, which the main thread reads while it runs.
use super::histogram::Histogram;
use crate::transport::Outcome;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// A number that one thread writes and others read.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// The number.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Sets it.
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// Only the writing thread may do so: a load and a store, no locked instruction.
    pub fn add(&self, value: u64) {
        self.set(self.get().wrapping_add(value));
    }

    /// As [`Gauge::add`].
    pub fn sub(&self, value: u64) {
        self.set(self.get().wrapping_sub(value));
    }
}

/// Counters by the id of an outcome.
#[derive(Debug)]
pub struct ByOutcome(Box<[Gauge]>);

impl Default for ByOutcome {
    fn default() -> Self {
        Self((0..=u8::MAX).map(|_| Gauge::default()).collect())
    }
}

impl ByOutcome {
    /// That of one outcome.
    pub fn of(&self, outcome: Outcome) -> &Gauge {
        &self.0[usize::from(outcome.id())]
    }
}

/// All counters of one load thread.
#[derive(Debug, Default)]
pub struct Stats {
    /// Thread id in /proc; 0 before it runs.
    pub tid: AtomicU32,
    /// Iterations that were due: arrivals, or iterations that closed users began.
    pub due: Gauge,
    /// Requests that were sent.
    pub sent: Gauge,
    /// Rows.
    pub rows: Gauge,
    /// Rows that are not `answered`.
    pub failed: Gauge,
    /// Arrivals that the bound in flight turned away.
    pub dropped: Gauge,
    /// Sessions of arrivals that were cut off between two steps.
    pub sessions_cut: Gauge,
    /// Requests in flight.
    pub in_flight: Gauge,
    /// The most of them.
    pub in_flight_max: Gauge,
    /// Arrivals that wait for a slot.
    pub queued: Gauge,
    /// Active users, or sessions.
    pub users: Gauge,
    /// Received.
    pub bytes_in: Gauge,
    /// Sent.
    pub bytes_out: Gauge,
    /// Connections opened.
    pub connections: Gauge,
    /// Rows by outcome.
    pub by_outcome: ByOutcome,
    /// lag + wait + total.
    pub latency: Histogram,
    /// Scheduled → picked up.
    pub lag: Histogram,
    /// Largest lag.
    pub lag_max: Gauge,
    /// How late the thread woke, whatever it waited for.
    pub wake_late: Histogram,
    /// The latest that it ever did, in µs.
    pub wake_late_max: Gauge,
    /// When that was, in µs on the run clock.
    pub wake_late_max_at: Gauge,
    /// How long it spun with nothing to do, in ns.
    pub spun_ns: Gauge,
    /// How often it stood still.
    pub stalls: Gauge,
    /// How long in all, in µs.
    pub stalled_us: Gauge,
    /// Requests that were under way then.
    pub stalled_under_way: Gauge,
}

impl Stats {
    /// A request is in flight.
    pub fn enter(&self) {
        self.in_flight.add(1);
        if self.in_flight.get() > self.in_flight_max.get() {
            self.in_flight_max.set(self.in_flight.get());
        }
    }
}
