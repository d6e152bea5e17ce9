//! Turns what became of a request into a row, and counts it.
use super::findings::{Finding, Note, advice, tell};
use super::stats::Stats;
use crate::journey::Plan;
use crate::record::log::{LogSummary, LogWriter, NameKind};
use crate::record::names::RunInfo;
use crate::record::row::{NONE_INSTANCE, NONE_U32, Row, flags};
use crate::transport::client::{Instances, MAX_INSTANCES};
use crate::transport::{Exchange, Outcome};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;

#[expect(clippy::struct_field_names, reason = "the unit belongs to the name")]
/// When a request was due, was picked up, and was started.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Points on the clock of the reactor.
    pub scheduled_ns: u64,
    /// The difference is the instrument's.
    pub picked_ns: u64,
    /// The difference is backpressure.
    pub started_ns: u64,
}

/// Whose request it was.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// Index of the workload.
    pub workload: usize,
    /// Virtual user, or arrival.
    pub user: u32,
    /// Iteration of the user.
    pub iteration: u32,
    /// Id of the step.
    pub step: u16,
    /// Index of the target.
    pub target: usize,
}

/// The records of one load thread.
pub struct Recorder {
    log: RefCell<Option<LogWriter>>,
    plan: Arc<Plan>,
    stats: Arc<Stats>,
    notes: Sender<Note>,
    instances: Rc<RefCell<Instances>>,
    named: Cell<usize>,
    told_full: Cell<bool>,
    lane: u8,
    start_ns: u64,
    failed: Cell<bool>,
    last_end_ns: Cell<u64>,
    /// What was kept, for tests to look at.
    #[cfg(test)]
    pub rows: RefCell<Vec<Row>>,
}

impl Recorder {
    /// Without a log, rows are only counted.
    pub fn new(
        log: Option<LogWriter>,
        plan: &Arc<Plan>,
        stats: &Arc<Stats>,
        notes: Sender<Note>,
        instances: &Rc<RefCell<Instances>>,
        (lane, start_ns): (usize, u64),
    ) -> Self {
        Self {
            log: RefCell::new(log),
            plan: Arc::clone(plan),
            stats: Arc::clone(stats),
            notes,
            instances: Rc::clone(instances),
            named: Cell::new(0),
            told_full: Cell::new(false),
            lane: lane as u8,
            start_ns,
            failed: Cell::new(false),
            last_end_ns: Cell::new(start_ns),
            #[cfg(test)]
            rows: RefCell::default(),
        }
    }

    /// Writes what ids stand for.
    pub fn begin(&self) {
        let job = &self.plan.job;
        let warmup = |w: &crate::job::Workload| (w.name.clone(), w.warmup_us as i64);
        let run =
            RunInfo { run_id: job.run_id.clone(), warmup_us: job.workloads.iter().map(warmup).collect() };
        let numbered = |names: &mut dyn Iterator<Item = &str>| -> BTreeMap<u16, String> {
            names.enumerate().map(|(id, name)| (id as u16, name.to_owned())).collect()
        };
        let workloads = numbered(&mut job.workloads.iter().map(|w| w.name.as_str()));
        let targets = numbered(&mut job.targets.iter().map(|t| t.name.as_str()));
        let outcomes =
            self.plan.outcomes.all().map(|(o, name)| (u16::from(o.id()), name.to_owned())).collect();
        self.write(|log| {
            if self.lane == 0 {
                log.run(&run)?;
            }
            log.names(NameKind::Workload, &workloads)?;
            log.names(NameKind::Step, &self.plan.step_names)?;
            log.names(NameKind::Target, &targets)?;
            log.names(NameKind::Outcome, &outcomes)
        });
        self.name_instances();
    }

    /// Writes the names that have come since the last time: all of them each time would grow with their square.
    fn name_instances(&self) {
        let instances = self.instances.borrow();
        let names = instances.names_from(self.named.replace(instances.len()));
        self.write(|log| log.names(NameKind::Instance, &names));
    }

    fn tell_of_full_names(&self, now_ns: u64) {
        if self.told_full.replace(true) {
            return;
        }
        let message = format!(
            "answers named more than {MAX_INSTANCES} instances; the others are recorded as the instance connected to"
        );
        self.find("instance_names_full", now_ns, MAX_INSTANCES as f64, message, advice::INSTANCES);
    }

    /// Keeps a request.
    pub fn keep(&self, origin: Origin, times: Times, x: &Exchange) {
        let (known, full) = {
            let instances = self.instances.borrow();
            (instances.len(), instances.is_full())
        };
        if known > self.named.get() {
            self.name_instances();
        }
        if full {
            self.tell_of_full_names(x.end_ns);
        }
        let row = self.row(origin, times, x);
        self.count(&row, x);
        #[cfg(test)]
        self.rows.borrow_mut().push(row);
        self.last_end_ns.set(self.last_end_ns.get().max(x.end_ns));
        self.write(|log| log.push(&row));
    }

    /// All times are differences of whole µs on the run clock, so that they add up exactly.
    fn row(&self, origin: Origin, times: Times, x: &Exchange) -> Row {
        let us = |ns: u64| (ns as i64 - self.start_ns as i64).div_euclid(1000);
        let span = |from: u64, to: u64| u32::try_from(us(to) - us(from)).map_or(0, |us| us.min(NONE_U32 - 1));
        let sent = !x.outcome.is_unsent();
        let ttfb_us = x.first_byte_ns.map_or(NONE_U32, |first| span(times.started_ns, first));
        let after_ttfb_us =
            if sent { span(x.first_byte_ns.unwrap_or(times.started_ns), x.end_ns) } else { NONE_U32 };
        let scheduled_us = us(times.scheduled_ns);
        let warmup_us = self.plan.job.workloads[origin.workload].warmup_us as i64;
        let reused = if x.reused { flags::REUSED } else { 0 };
        let http2 = if x.http2 { flags::HTTP2 } else { 0 };
        let cold = x.cold.map_or(0, |cold| flags::COLD_KNOWN | if cold { flags::COLD } else { 0 });
        let warmup = if scheduled_us < warmup_us { flags::WARMUP } else { 0 };
        Row {
            scheduled_us,
            lag_us: span(times.scheduled_ns, times.picked_ns),
            wait_us: span(times.picked_ns, times.started_ns),
            dns_us: x.dns_us,
            connect_us: x.connect_us,
            tls_us: x.tls_us,
            ttfb_us,
            after_ttfb_us,
            bytes_out: x.bytes_out.min(u64::from(u32::MAX)) as u32,
            bytes_in: x.bytes_in.min(u64::from(u32::MAX)) as u32,
            iteration: origin.iteration,
            user: origin.user,
            status: x.status,
            step: origin.step,
            instance: x.instance.unwrap_or(NONE_INSTANCE),
            outcome: x.outcome.id(),
            workload: origin.workload as u8,
            target: origin.target as u8,
            worker: self.lane,
            attempt: x.attempt,
            flags: reused | warmup | cold | http2 | x.redirects << flags::REDIRECTS_SHIFT,
        }
    }

    fn count(&self, row: &Row, x: &Exchange) {
        let stats = &self.stats;
        stats.rows.add(1);
        stats.by_outcome.of(x.outcome).add(1);
        stats.lag.add(row.lag_us);
        if u64::from(row.lag_us) > stats.lag_max.get() {
            stats.lag_max.set(u64::from(row.lag_us));
        }
        if x.outcome != Outcome::Answered {
            stats.failed.add(1);
        }
        if !x.outcome.is_unsent() {
            stats.sent.add(1);
            stats.bytes_in.add(x.bytes_in);
            stats.bytes_out.add(x.bytes_out);
            let ttfb = if row.ttfb_us == NONE_U32 { 0 } else { row.ttfb_us };
            let latency =
                [row.wait_us, ttfb, row.after_ttfb_us].iter().fold(row.lag_us, |a, b| a.saturating_add(*b));
            stats.latency.add(latency);
        }
    }

    /// Writes what is older than the log's bound.
    pub fn flush_due(&self, now_ns: u64) {
        self.write(|log| log.flush_due(now_ns));
    }

    /// Ends the log.
    pub fn finish(&self) -> Option<io::Result<LogSummary>> {
        self.log.take().map(LogWriter::finish)
    }

    /// The last end of a request.
    pub fn last_end_ns(&self) -> u64 {
        self.last_end_ns.get()
    }

    /// On the run clock.
    pub fn run_us(&self, ns: u64) -> i64 {
        (ns as i64 - self.start_ns as i64).div_euclid(1000)
    }

    /// Tells the main thread.
    pub fn find(&self, name: &'static str, now_ns: u64, value: f64, message: String, advice: &'static str) {
        let finding = Finding { name, t_us: self.run_us(now_ns), value, message, advice };
        tell(&self.notes, Note::Finding(finding));
    }

    /// A run that loses records is worthless: the first failure ends it.
    fn write(&self, write: impl FnOnce(&mut LogWriter) -> io::Result<()>) {
        let Some(log) = &mut *self.log.borrow_mut() else { return };
        let Err(error) = write(log) else { return };
        if !self.failed.replace(true) {
            let message = format!("records could not be written: {error}");
            let lost = 1.0;
            self.find("record_write_failed", self.last_end_ns.get(), lost, message.clone(), advice::RECORD);
            tell(&self.notes, Note::Fatal(message));
        }
    }
}

#[cfg(test)]
#[path = "recorder_tests.rs"]
mod tests;
