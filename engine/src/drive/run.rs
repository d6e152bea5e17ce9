//! A whole run, as the main thread sees it.
use super::asked;
use super::control::{self, Control, Lifeline, Order};
use super::events::Events;
use super::findings::{Finding, Note, advice, tell};
use super::machine;
use super::monitor::Monitor;
use super::priority;
use super::pulse;
use super::stats::Stats;
use super::summary::{Compaction, Ending, StoppedBy};
use super::worker::{self, Harvest, Seed};
use crate::build_info;
use crate::job::{Job, Load};
use crate::journey::Plan;
use crate::record::log::LogWriter;
use crate::schedule::{ArrivalPlan, Population};
use crate::transport::reactor::{Bell, monotonic_ns};
use crate::transport::resolver::Resolver;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// From the order to start at once to the first request: enough to build all users.
const START_AFTER_NS: u64 = 3_000_000;
const START_AFTER_NS_PER_USER: u64 = 2_000;
const SECOND_NS: u64 = 1_000_000_000;
/// A start that is ordered for a moment that has passed by more than this is refused; less is lag, and is in the rows.
const LATE_START_NS: u64 = 250_000_000;

/// Carries a job out. The error is for people; its event was already written.
pub fn run(plan: Plan, lifeline: Lifeline, events: Events) -> Result<(), String> {
    machine::raise_descriptors();
    if let (Lifeline::Stdin, Some(nice)) = (lifeline, plan.job.nice) {
        priority::raise_session(nice);
    }
    let mut run = Run::prepare(Arc::new(plan), events)?;
    if lifeline == Lifeline::Stdin {
        control::listen(run.notes.clone()).map_err(|e| run.fail(format!("cannot read stdin: {e}")))?;
    }
    control::obey_signals(run.notes.clone(), lifeline)
        .map_err(|e| run.fail(format!("cannot watch signals: {e}")))?;
    run.events.emit("ready", ready(&run.plan));
    if build_info::PROFILE != "release" {
        let message = format!("this is a {} build", build_info::PROFILE);
        run.find(&Finding { name: "debug_build", t_us: 0, value: 1.0, message, advice: advice::DEBUG });
    }
    let start_ns = if lifeline == Lifeline::Stdin { run.await_start() } else { Some(run.soon()) };
    run.load(start_ns)
}

/// The main thread's view of a run.
struct Run {
    plan: Arc<Plan>,
    events: Events,
    notes: Sender<Note>,
    inbox: Receiver<Note>,
    control: Arc<Control>,
    stats: Vec<Arc<Stats>>,
    starts: Vec<Sender<u64>>,
    threads: Vec<JoinHandle<std::io::Result<Harvest>>>,
    found: BTreeSet<&'static str>,
    stopped_by: Option<StoppedBy>,
    failure: Option<String>,
}

impl Run {
    /// Starts the load threads, which wait for the start.
    fn prepare(plan: Arc<Plan>, events: Events) -> Result<Self, String> {
        let (notes, inbox) = channel();
        let mut run = Self {
            plan,
            events,
            notes,
            inbox,
            control: Arc::default(),
            stats: Vec::new(),
            starts: Vec::new(),
            threads: Vec::new(),
            found: BTreeSet::new(),
            stopped_by: None,
            failure: None,
        };
        run.start_threads().map_err(|error| run.fail(error))?;
        Ok(run)
    }

    fn start_threads(&mut self) -> Result<(), String> {
        let count = self.plan.job.threads;
        let bell = || Bell::new().map(Arc::new).map_err(|e| format!("no eventfd: {e}"));
        let bells = (0..count).map(|_| bell()).collect::<Result<Vec<_>, _>>()?;
        self.control = Arc::new(Control::new(bells.clone()));
        let resolver =
            Resolver::start(&self.plan.job.dns).map_err(|e| format!("cannot start a thread: {e}"))?;
        let output = &self.plan.job.output;
        for (thread, bell) in bells.into_iter().enumerate() {
            let log = LogWriter::create(output, self.plan.job.lane(thread) as u8)
                .map_err(|e| format!("cannot create the log in {}: {e}", output.display()))?;
            let stats = Arc::<Stats>::default();
            let (start, wait) = channel();
            let seed = Seed {
                thread,
                plan: Arc::clone(&self.plan),
                log,
                stats: Arc::clone(&stats),
                notes: self.notes.clone(),
                control: Arc::clone(&self.control),
                bell,
                resolver: resolver.clone(),
                start: wait,
            };
            let notes = self.notes.clone();
            let main = move || {
                let ended = Ended(notes);
                let harvest = worker::main(seed);
                drop(ended);
                harvest
            };
            let handle = std::thread::Builder::new().name(format!("load-{thread}")).spawn(main);
            self.threads.push(handle.map_err(|e| format!("cannot start a thread: {e}"))?);
            self.stats.push(stats);
            self.starts.push(start);
        }
        Ok(())
    }

    fn fail(&mut self, message: String) -> String {
        self.events.emit("error", json!({"message": message}));
        message
    }

    /// Emits a finding, the first time that it is found.
    fn find(&mut self, finding: &Finding) {
        if self.found.insert(finding.name) {
            self.events.finding(finding);
        }
    }

    fn soon(&self) -> u64 {
        let users = |load: &Load| match load {
            Load::Closed(closed) => Population::new(closed).users(),
            Load::Open(_) => 0,
        };
        let users: u64 = self.plan.job.workloads.iter().map(|w| users(&w.load)).sum();
        monotonic_ns() + START_AFTER_NS + users * START_AFTER_NS_PER_USER
    }

    /// Waits for the order to start; none if the run is stopped before.
    fn await_start(&mut self) -> Option<u64> {
        loop {
            match self.inbox.recv() {
                Ok(Note::Order(Order::Start(None))) => return Some(self.soon()),
                Ok(Note::Order(Order::Start(Some(at_ns)))) => match check_start(at_ns, monotonic_ns()) {
                    Ok(()) => return Some(at_ns),
                    Err(message) => self.take(Note::Fatal(message)),
                },
                Ok(note) => self.take(note),
                Err(_) => return None,
            }
            if self.stopped_by.is_some() {
                return None;
            }
        }
    }

    fn take(&mut self, note: Note) {
        match note {
            Note::Finding(finding) => self.find(&finding),
            Note::Fatal(message) => {
                self.fail(message.clone());
                self.failure.get_or_insert(message);
                self.stop(StoppedBy::Error);
            }
            Note::Order(Order::Stop) => self.stop(StoppedBy::Stop),
            Note::Order(Order::Eof) => self.stop(StoppedBy::Eof),
            Note::Order(Order::Unknown(message)) => {
                self.fail(message);
            }
            Note::Order(Order::Start(_)) => {
                self.fail("the run was started already".into());
            }
            Note::Ended => {}
        }
    }

    fn stop(&mut self, why: StoppedBy) {
        self.stopped_by.get_or_insert(why);
        self.control.stop();
    }

    /// From the start to the `done` event.
    fn load(mut self, start_ns: Option<u64>) -> Result<(), String> {
        let zero_ns = start_ns.unwrap_or_else(monotonic_ns);
        let mut monitor = Monitor::new(&self.stats, zero_ns);
        if let Some(start_ns) = start_ns {
            // A thread that has already ended says why when it is joined.
            for start in &self.starts {
                let _ = start.send(start_ns);
            }
            self.events.emit("started", json!({"start_ns": start_ns}));
            self.watch(&mut monitor, start_ns);
        }
        self.starts.clear();
        let harvest = self.join();
        let drained_ns = monotonic_ns();
        while let Ok(note) = self.inbox.try_recv() {
            if !matches!(note, Note::Order(_)) {
                self.take(note);
            }
        }
        let (_, findings) = monitor.look(drained_ns, zero_ns);
        for finding in &findings {
            self.find(finding);
        }
        if let Some(stalled) = pulse::finding(&self.stats) {
            self.find(&stalled);
        }
        let t_us = (drained_ns.saturating_sub(zero_ns) / 1000) as i64;
        self.tell_of_cut_sessions(monitor.sum(|s| &s.sessions_cut), t_us);
        let tallies = harvest.iter().map(|h| &*h.tallies);
        // Whoever ends a run before its schedule has asked for less.
        if let (None, Some(short)) = (self.stopped_by, asked::finding(&self.plan.job, &tallies, t_us)) {
            self.find(&short);
        }
        let by_count = !harvest.is_empty() && harvest.iter().all(|h| h.by_count);
        let natural = if by_count { StoppedBy::Count } else { StoppedBy::Schedule };
        if self.plan.job.nice.is_some() {
            priority::reset_session();
        }
        let compaction = Compaction::carry_out(&self.plan);
        self.check_records(&compaction, &harvest, (monitor.sum(|s| &s.rows), t_us));
        let ending = Ending {
            plan: &self.plan,
            stats: &self.stats,
            harvest: &harvest,
            monitor: &monitor,
            start_ns: zero_ns,
            drained_ns,
            stopped_by: self.stopped_by.unwrap_or(natural),
        };
        self.events.emit("done", ending.done(&compaction));
        self.failure.map_or(Ok(()), Err)
    }

    fn tell_of_cut_sessions(&mut self, count: u64, t_us: i64) {
        if count > 0 {
            let message =
                format!("{count} sessions were cut off between two steps; what they had left is no row");
            let (name, advice) = ("sessions_cut", advice::SESSIONS_CUT);
            self.find(&Finding { name, t_us, value: count as f64, message, advice });
        }
    }

    /// Every row that was counted has to be in the file.
    fn check_records(&mut self, compaction: &Compaction, harvest: &[Harvest], (counted, t_us): (u64, i64)) {
        let kept = match &compaction.result {
            None => harvest.iter().filter_map(|h| h.log.as_ref()).map(|log| log.rows).sum(),
            Some(Ok(summary)) => summary.rows,
            Some(Err(error)) => {
                let message = error.to_string();
                self.failure.get_or_insert_with(|| format!("the records were not put together: {message}"));
                self.find(&Finding {
                    name: "compact_failed",
                    t_us,
                    value: 1.0,
                    message,
                    advice: advice::COMPACT,
                });
                return;
            }
        };
        if kept != counted {
            let message = format!("{counted} rows were counted, {kept} were kept");
            let value = counted.abs_diff(kept) as f64;
            self.find(&Finding { name: "records_lost", t_us, value, message, advice: advice::RECORD });
            self.failure.get_or_insert("records were lost".into());
        }
    }

    /// Until all threads have ended: progress each second, orders and findings as they come.
    fn watch(&mut self, monitor: &mut Monitor, start_ns: u64) {
        let mut ended = 0;
        let mut next_ns = start_ns + SECOND_NS;
        while ended < self.threads.len() {
            let left = Duration::from_nanos(next_ns.saturating_sub(monotonic_ns()));
            match self.inbox.recv_timeout(left) {
                Ok(Note::Ended) => ended += 1,
                Ok(note) => self.take(note),
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    let now_ns = monotonic_ns();
                    let (progress, findings) = monitor.look(now_ns, start_ns);
                    self.events.emit_or_drop("progress", progress);
                    for finding in &findings {
                        self.find(finding);
                    }
                    // A second that was missed is not made up for.
                    next_ns += ((now_ns - next_ns) / SECOND_NS + 1) * SECOND_NS;
                }
            }
        }
    }

    fn join(&mut self) -> Vec<Harvest> {
        let mut harvest = Vec::new();
        for thread in std::mem::take(&mut self.threads) {
            match thread.join() {
                Ok(Ok(left)) => harvest.push(left),
                Ok(Err(error)) => {
                    let message = self.fail(format!("a load thread ended: {error}"));
                    self.failure.get_or_insert(message);
                    self.stopped_by = Some(StoppedBy::Error);
                }
                Err(_) => {
                    let message = self.fail("a load thread panicked".into());
                    self.failure.get_or_insert(message);
                    self.stopped_by = Some(StoppedBy::Error);
                }
            }
        }
        harvest
    }
}

/// Whether a start may be ordered for a moment of the monotonic clock.
fn check_start(at_ns: u64, now_ns: u64) -> Result<(), String> {
    let late_ns = now_ns.saturating_sub(at_ns);
    if late_ns <= LATE_START_NS {
        return Ok(());
    }
    let (ago_s, allowed_s) = (late_ns as f64 / 1e9, LATE_START_NS as f64 / 1e9);
    Err(format!(
        "start_at_ns {at_ns} was {ago_s:.3} s ago on the monotonic clock, allowed are {allowed_s} s; nothing was sent: order a start that is to come, or null for now"
    ))
}

/// Says that a thread has ended, also when it panics.
struct Ended(Sender<Note>);

impl Drop for Ended {
    fn drop(&mut self) {
        tell(&self.0, Note::Ended);
    }
}

/// Arrivals that this engine expects; none if there is only closed load.
pub fn expected_due(job: &Job) -> Option<u64> {
    let due = |(index, workload): (usize, &crate::job::Workload)| match &workload.load {
        Load::Open(open) => Some(ArrivalPlan::new(open, job.seed, index as u64).expected_total()),
        Load::Closed(_) => None,
    };
    let all: Vec<_> = job.workloads.iter().enumerate().filter_map(due).collect();
    let part = job.own_part();
    (!all.is_empty()).then(|| all.into_iter().map(|due| part.share(due)).sum())
}

fn ready(plan: &Plan) -> Value {
    json!({
        "version": 1,
        "engine": build_info::VERSION,
        "build": build_info::json(),
        "backend": build_info::BACKEND,
        "threads": plan.job.threads,
        "pid": std::process::id(),
        "due": expected_due(&plan.job),
    })
}
