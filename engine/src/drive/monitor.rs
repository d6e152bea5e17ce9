//! Looks at the load threads once a second.
use super::findings::{Finding, advice};
use super::histogram::Counts;
use super::machine::schedstat;
use super::stats::{Gauge, Stats};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A second whose lag p99 is above this is worth a word; whether the run counts is decided elsewhere.
const LATE_US: u32 = 10_000;
/// A thread that is busier than this in a second has nothing in reserve.
const BUSY_RATIO: f64 = 0.95;

/// What was seen so far.
pub struct Monitor {
    threads: Vec<Seen>,
    /// Everything since the start.
    pub lag: Counts,
    /// How late threads woke since the start.
    pub wake_late: Counts,
    /// Busiest second of any thread, without what it spun.
    pub cpu_max_1s: f64,
    /// Longest time in the run queue in a second, of any thread, in ms.
    pub run_queue_max_ms_1s: f64,
    last_ns: u64,
}

struct Seen {
    stats: Arc<Stats>,
    latency: Counts,
    lag: Counts,
    wake_late: Counts,
    cpu_ns: u64,
    spun_ns: u64,
    run_queue_ns: u64,
}

impl Monitor {
    /// Nothing was seen yet.
    pub fn new(stats: &[Arc<Stats>], now_ns: u64) -> Self {
        let seen = |stats: &Arc<Stats>| {
            let (cpu_ns, run_queue_ns) = schedstat(stats.tid.load(Relaxed));
            let (latency, lag, wake_late) = (Counts::default(), Counts::default(), Counts::default());
            Seen { stats: Arc::clone(stats), latency, lag, wake_late, cpu_ns, spun_ns: 0, run_queue_ns }
        };
        Self {
            threads: stats.iter().map(seen).collect(),
            lag: Counts::default(),
            wake_late: Counts::default(),
            cpu_max_1s: 0.0,
            run_queue_max_ms_1s: 0.0,
            last_ns: now_ns,
        }
    }

    /// Sum of a counter over all threads.
    pub fn sum(&self, of: impl Fn(&Stats) -> &Gauge) -> u64 {
        self.threads.iter().map(|seen| of(&seen.stats).get()).sum()
    }

    /// Takes a second in: its `progress`, and what is to be said about it.
    pub fn look(&mut self, now_ns: u64, start_ns: u64) -> (Value, Vec<Finding>) {
        let (mut latency, mut lag) = (Counts::default(), Counts::default());
        let elapsed_ns = now_ns.saturating_sub(self.last_ns).max(1) as f64;
        // A look shortly after another, at the end of a run, is no second to judge by.
        let whole = elapsed_ns > 0.5e9;
        self.last_ns = now_ns;
        let (mut cores, mut busiest) = (0.0, 0.0_f64);
        for seen in &mut self.threads {
            seen.stats.latency.collect(&mut seen.latency, &mut latency);
            seen.stats.lag.collect(&mut seen.lag, &mut lag);
            seen.stats.wake_late.collect(&mut seen.wake_late, &mut self.wake_late);
            let (cpu_ns, run_queue_ns) = schedstat(seen.stats.tid.load(Relaxed));
            // A thread that has ended is no longer in /proc.
            let used = cpu_ns.saturating_sub(seen.cpu_ns) as f64 / elapsed_ns;
            let spun_ns = seen.stats.spun_ns.get();
            let busy = (used - (spun_ns - seen.spun_ns) as f64 / elapsed_ns).max(0.0);
            seen.spun_ns = spun_ns;
            let waited_ms = run_queue_ns.saturating_sub(seen.run_queue_ns) as f64 / elapsed_ns * 1e3;
            (seen.cpu_ns, seen.run_queue_ns) = (cpu_ns.max(seen.cpu_ns), run_queue_ns.max(seen.run_queue_ns));
            cores += used;
            busiest = busiest.max(busy);
            if whole {
                self.cpu_max_1s = self.cpu_max_1s.max(busy);
                self.run_queue_max_ms_1s = self.run_queue_max_ms_1s.max(waited_ms);
            }
        }
        self.lag.merge(&lag);
        let t_us = (now_ns as i64 - start_ns as i64) / 1000;
        let lag_p99 = lag.quantile(0.99);
        let findings = findings(t_us, lag_p99.unwrap_or(0), if whole { busiest } else { 0.0 });
        let progress = json!({
            "t_us": t_us,
            "due": self.sum(|s| &s.due),
            "sent": self.sum(|s| &s.sent),
            "done": self.sum(|s| &s.rows),
            "failed": self.sum(|s| &s.failed),
            "in_flight": self.sum(|s| &s.in_flight),
            "queued": self.sum(|s| &s.queued),
            "users": self.sum(|s| &s.users),
            "p50_us": latency.quantile(0.5),
            "p95_us": latency.quantile(0.95),
            "lag_p99_us": lag_p99,
            "cpu_cores": round(cores),
            "bytes_in": self.sum(|s| &s.bytes_in),
            "bytes_out": self.sum(|s| &s.bytes_out),
        });
        (progress, findings)
    }
}

fn findings(t_us: i64, lag_p99_us: u32, busiest: f64) -> Vec<Finding> {
    let mut findings = Vec::new();
    if lag_p99_us > LATE_US {
        let value = f64::from(lag_p99_us);
        let message =
            format!("1 % of the requests of a second were picked up more than {:.1} ms late", value / 1e3);
        findings.push(Finding { name: "late", t_us, value, message, advice: advice::LATE });
    }
    if busiest > BUSY_RATIO {
        let message = format!("a load thread used {:.0} % of a core", busiest * 100.0);
        findings.push(Finding {
            name: "cpu_bound",
            t_us,
            value: round(busiest),
            message,
            advice: advice::CPU,
        });
    }
    findings
}

/// To four digits after the point.
pub fn round(x: f64) -> f64 {
    (x * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::reactor::monotonic_ns;

    /// The busiest second of a thread that is never idle, if it says that it spun for so much of it.
    fn busiest(spun_share: f64) -> f64 {
        let stats = Arc::<Stats>::default();
        stats.tid.store(rustix::thread::gettid().as_raw_nonzero().get() as u32, Relaxed);
        let began_ns = monotonic_ns();
        let mut monitor = Monitor::new(&[Arc::clone(&stats)], began_ns);
        while monotonic_ns() < began_ns + 600_000_000 {}
        let now_ns = monotonic_ns();
        stats.spun_ns.set(((now_ns - began_ns) as f64 * spun_share) as u64);
        monitor.look(now_ns, began_ns);
        monitor.cpu_max_1s
    }

    #[test]
    fn spinning_is_not_being_busy() {
        assert!(busiest(1.0) < 0.01);
        // However little of a core the test was given.
        assert!(busiest(0.0) > 0.01);
    }
}
