//! How late a load thread wakes: a beat whose moments are known, whatever the load waits for.
//!
//! Closed load has no schedule that would show that the engine itself was away: stopped by a signal, frozen with its
//! container or machine, or without a CPU. All that it has under way then seems to have taken so much longer.
use super::findings::{Finding, advice};
use super::stats::Stats;
use super::worker::Worker;
use crate::transport::Transport;
use crate::transport::reactor::Wait;
use std::rc::Rc;
use std::sync::Arc;

/// From beat to beat.
const BEAT_NS: u64 = 10_000_000;
/// A thread that wakes so late was away: several times what a busy machine lets anybody wait for a CPU.
const STALL_NS: u64 = 100_000_000;

/// Beats until the run is cut; all that is done is in the counters of the thread.
pub fn spawn<T: Transport>(worker: &Rc<Worker<T>>) {
    let worker = Rc::clone(worker);
    worker.rt.clone().spawn(async move {
        let mut at_ns = worker.rt.now().max(worker.start_ns);
        loop {
            at_ns += BEAT_NS;
            // Once the thread is back, what came in meanwhile goes first: what was under way is known from before.
            let under_way = worker.stats.in_flight.get();
            if worker.rt.sleep_until(at_ns).await == Wait::Cut {
                return;
            }
            let now_ns = worker.rt.now();
            worker.stats.spun_ns.set(worker.rt.spun_ns());
            note(&worker.stats, now_ns - at_ns, worker.recorder.run_us(at_ns), under_way);
            at_ns = now_ns;
        }
    });
}

/// A beat was late by so many ns.
fn note(of: &Stats, late: u64, at_us: i64, under_way: u64) {
    let late_us = late / 1000;
    of.wake_late.add(u32::try_from(late_us).unwrap_or(u32::MAX));
    if late_us > of.wake_late_max.get() {
        of.wake_late_max.set(late_us);
        of.wake_late_max_at.set(at_us as u64);
    }
    if late >= STALL_NS {
        of.stalls.add(1);
        of.stalled_us.add(late_us);
        of.stalled_under_way.add(under_way);
    }
}

/// What is to be said of threads that stood still.
pub fn finding(stats: &[Arc<Stats>]) -> Option<Finding> {
    let worst = stats.iter().filter(|s| s.stalls.get() > 0).max_by_key(|s| s.wake_late_max.get())?;
    let longest_s = worst.wake_late_max.get() as f64 / 1e6;
    let under_way: u64 = stats.iter().map(|s| s.stalled_under_way.get()).sum();
    let total_us = stats.iter().map(|s| s.stalled_us.get()).max().unwrap_or(0);
    let times = stats.iter().map(|s| s.stalls.get()).max().unwrap_or(0);
    let often = if times > 1 {
        format!(" ({times} times, {:.1} s in all)", total_us as f64 / 1e6)
    } else {
        String::new()
    };
    let message = format!(
        "the engine stood still for {longest_s:.1} s{often}: latencies of the {under_way} requests that were under way then contain it, and what was due meanwhile began late"
    );
    let t_us = worst.wake_late_max_at.get() as i64;
    Some(Finding { name: "stalled", t_us, value: longest_s, message, advice: advice::STALLED })
}
