//! The `done` event.
use super::machine;
use super::monitor::{Monitor, round};
use super::stats::Stats;
use super::worker::Harvest;
use crate::journey::Plan;
use crate::record::compact::{CompactError, CompactSummary, compact};
use crate::record::log::LogSummary;
use crate::transport::Outcome;
use crate::transport::reactor::monotonic_ns;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoppedBy {
    /// Its schedule was over.
    Schedule,
    /// The number asked for was reached.
    Count,
    /// An order.
    Stop,
    /// The end of stdin.
    Eof,
    /// Something broke.
    Error,
}

impl StoppedBy {
    fn name(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Count => "count",
            Self::Stop => "stop",
            Self::Eof => "eof",
            Self::Error => "error",
        }
    }
}

/// All that is known at the end.
pub struct Ending<'a> {
    /// What was asked for.
    pub plan: &'a Plan,
    /// Counters.
    pub stats: &'a [Arc<Stats>],
    /// What the threads left.
    pub harvest: &'a [Harvest],
    /// What was seen while they ran.
    pub monitor: &'a Monitor,
    /// Zero of the run clock.
    pub start_ns: u64,
    /// When the last thread had ended.
    pub drained_ns: u64,
    /// Why.
    pub stopped_by: StoppedBy,
}

/// What compaction gave, and what it cost.
pub struct Compaction {
    /// Its result; none where the logs stay what they are.
    pub result: Option<Result<CompactSummary, CompactError>>,
    wall_s: f64,
    cpu_s: f64,
}

impl Compaction {
    /// Merges the logs. Those of one worker of several stay: whoever has all of them merges them.
    pub fn carry_out(plan: &Plan) -> Self {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let (began_ns, before) = (monotonic_ns(), machine::ThreadUsage::read(tid));
        let whole = plan.job.part.is_none();
        let result = whole.then(|| compact(&plan.job.output, &plan.job.records()));
        let cpu_s = machine::ThreadUsage::read(tid).since(&before).cpu_ns as f64 / 1e9;
        Self { result, wall_s: (monotonic_ns() - began_ns) as f64 / 1e9, cpu_s }
    }

    fn summary(&self) -> Option<&CompactSummary> {
        self.result.as_ref()?.as_ref().ok()
    }
}

impl Ending<'_> {
    /// The fields of the event.
    pub fn done(&self, compaction: &Compaction) -> Value {
        json!({
            "counts": self.counts(),
            "window": self.window(),
            "self": self.own(compaction),
            "files": self.files(compaction),
            "stopped_by": self.stopped_by.name(),
        })
    }

    fn counts(&self) -> Value {
        let sum = |of: &dyn Fn(&Stats) -> u64| self.stats.iter().map(|s| of(s)).sum::<u64>();
        let outcome = |(o, name)| (name, sum(&|s| s.by_outcome.of(o).get()));
        let by_outcome: std::collections::BTreeMap<_, _> =
            self.plan.outcomes.all().map(outcome).filter(|(_, count)| *count > 0).collect();
        json!({
            "due": sum(&|s| s.due.get()),
            "rows": sum(&|s| s.rows.get()),
            "sent": sum(&|s| s.sent.get()),
            "sessions_cut": sum(&|s| s.sessions_cut.get()),
            "dropped": sum(&|s| s.dropped.get()),
            "by_outcome": by_outcome,
        })
    }

    /// With several workloads: the time in which all of them are measured. A run that ended within its warm-up has none
    /// of it: its window is empty, never inverted.
    fn window(&self) -> Value {
        let job = &self.plan.job;
        let drained_us = (self.drained_ns.saturating_sub(self.start_ns) / 1000) as i64;
        let finished_ns = self.harvest.iter().map(|h| h.last_end_ns).max().unwrap_or(0);
        let last_us = (finished_ns.saturating_sub(self.start_ns) / 1000) as i64;
        let schedule_us = job.workloads.iter().map(|w| w.load.duration_us()).min().unwrap_or(0) as i64;
        let end_us = match self.stopped_by {
            StoppedBy::Schedule => schedule_us,
            StoppedBy::Count => schedule_us.min(last_us + 1),
            _ => schedule_us.min(drained_us),
        };
        let start_us = job.workloads.iter().map(|w| w.warmup_us).max().unwrap_or(0);
        let end_us = end_us.max(start_us as i64);
        json!({"start_us": start_us, "end_us": end_us, "drained_us": drained_us, "last_us": last_us})
    }

    fn own(&self, compaction: &Compaction) -> Value {
        let wall_s = self.drained_ns.saturating_sub(self.start_ns) as f64 / 1e9;
        let used = || self.harvest.iter().map(|h| &h.usage);
        let (user_s, system_s) =
            used().map(machine::ThreadUsage::user_system_s).fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
        let waited_s = used().map(|u| u.run_queue_ns).max().unwrap_or(0) as f64 / 1e9;
        let ratio = |x: f64| if wall_s > 0.0 { round(x / wall_s) } else { 0.0 };
        let lag = |q| self.monitor.lag.quantile(q);
        let sum = |of: &dyn Fn(&Stats) -> u64| self.stats.iter().map(|s| of(s)).sum::<u64>();
        let most = |of: &dyn Fn(&Stats) -> u64| self.stats.iter().map(|s| of(s)).max().unwrap_or(0);
        // A run of less than a second has no whole second to look at.
        let busy_ns = |(h, s): (&Harvest, &Arc<Stats>)| h.usage.cpu_ns.saturating_sub(s.spun_ns.get());
        let busiest = self.harvest.iter().zip(self.stats).map(busy_ns).max().unwrap_or(0) as f64 / 1e9;
        let (summary, log_bytes) = (compaction.summary(), self.logs().map(|l| l.bytes).sum::<u64>());
        json!({
            "lag_p50_us": lag(0.5),
            "lag_p99_us": lag(0.99),
            "lag_p999_us": lag(0.999),
            "lag_max_us": most(&|s| s.lag_max.get()),
            "wake_late_p99_us": self.monitor.wake_late.quantile(0.99),
            "wake_late_max_us": most(&|s| s.wake_late_max.get()),
            "stalled_ratio": ratio(most(&|s| s.stalled_us.get()) as f64 / 1e6),
            "not_sent": sum(&|s| s.by_outcome.of(Outcome::NotSent).get()),
            "cpu_user_s": round(user_s),
            "cpu_system_s": round(system_s),
            "spun_s": round(sum(&|s| s.spun_ns.get()) as f64 / 1e9),
            "cpu_cores_mean": ratio(user_s + system_s),
            "cpu_cores_max_1s": round(self.monitor.cpu_max_1s).max(ratio(busiest)),
            "run_queue_wait_ratio": ratio(waited_s),
            "run_queue_wait_max_ms_1s": round(self.monitor.run_queue_max_ms_1s),
            "max_rss_bytes": machine::max_rss_bytes(),
            "involuntary_switches": used().map(|u| u.involuntary_switches).sum::<u64>(),
            "wall_s": round(wall_s),
            "compact_s": round(compaction.wall_s),
            "compact_cpu_s": round(compaction.cpu_s),
            "record_bytes_log": log_bytes,
            "record_bytes_parquet": summary.map(|s| s.bytes),
            "in_flight_max": sum(&|s| s.in_flight_max.get()),
            "connections_opened": sum(&|s| s.connections.get()),
        })
    }

    fn logs(&self) -> impl Iterator<Item = &LogSummary> {
        self.harvest.iter().filter_map(|h| h.log.as_ref())
    }

    fn files(&self, compaction: &Compaction) -> Vec<Value> {
        let file = |path: &PathBuf, rows: u64, bytes: u64, crc32: u32| json!({"path": path, "rows": rows, "bytes": bytes, "crc32": crc32});
        match compaction.summary() {
            Some(s) => vec![file(&s.path, s.rows, s.bytes, s.crc32)],
            None => self.logs().map(|l| file(&l.path, l.rows, l.bytes, l.crc32)).collect(),
        }
    }
}
