//! A load thread.
use super::asked::Tally;
use super::control::Control;
use super::drafts::Drafts;
use super::findings::{Finding, Note, advice, tell};
use super::recorder::Recorder;
use super::replies::Replies;
use super::stats::Stats;
use super::{arrivals, machine, pulse, user};
use crate::job::Load;
use crate::journey::Plan;
use crate::journey::answers::Workspace;
use crate::record::log::{LogSummary, LogWriter};
use crate::transport::client::{Client, Instances, OnTrouble, Parts};
use crate::transport::reactor::{Bell, Clock, Reactor, Wait};
use crate::transport::resolver::{Mailbox, Resolver};
use crate::transport::{Shortage, Transport, Trouble};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender};

/// Rows are written at the latest after this.
const FLUSH_NS: u64 = 500_000_000;

/// What a load thread is given.
pub struct Seed {
    /// Its number among those of this engine.
    pub thread: usize,
    /// What to do.
    pub plan: Arc<Plan>,
    /// Where its rows go.
    pub log: LogWriter,
    /// What it counts.
    pub stats: Arc<Stats>,
    /// What it has to say.
    pub notes: Sender<Note>,
    /// Orders.
    pub control: Arc<Control>,
    /// Tells of orders.
    pub bell: Arc<Bell>,
    /// For names.
    pub resolver: Resolver,
    /// Start of the load, once it is known; closed if there will be none.
    pub start: Receiver<u64>,
}

/// What a load thread leaves.
pub struct Harvest {
    /// Its log.
    pub log: Option<LogSummary>,
    /// The last end of a request, on the monotonic clock.
    pub last_end_ns: u64,
    /// Each of its closed users or open workloads ended because the number asked for was reached.
    pub by_count: bool,
    /// What of each workload has begun.
    pub tallies: Box<[Tally]>,
    /// What it used.
    pub usage: machine::ThreadUsage,
}

/// What the tasks of a thread share.
pub struct Worker<T: Transport> {
    /// Runs them.
    pub rt: Rc<Reactor>,
    /// What to do.
    pub plan: Arc<Plan>,
    /// Sends requests.
    pub transport: T,
    /// Keeps rows.
    pub recorder: Recorder,
    /// Counters.
    pub stats: Arc<Stats>,
    /// Buffers for answers.
    pub replies: Replies,
    /// For looking at them.
    pub workspace: RefCell<Workspace>,
    /// Buffers for requests.
    pub drafts: Drafts,
    /// Number of the thread among those of all workers.
    pub lane: usize,
    /// Number of threads of all workers.
    pub lanes: usize,
    /// Zero of the run clock.
    pub start_ns: u64,
    /// What of each workload has begun.
    pub tallies: Box<[Tally]>,
    live: Cell<usize>,
    begun: Cell<usize>,
    counted: Cell<usize>,
}

impl<T: Transport> Worker<T> {
    /// A worker without tasks.
    pub fn new(
        rt: Rc<Reactor>,
        plan: Arc<Plan>,
        transport: T,
        recorder: Recorder,
        stats: Arc<Stats>,
        (lane, start_ns): (usize, u64),
    ) -> Rc<Self> {
        let lanes = plan.job.lanes();
        let zero = || Cell::new(0);
        let (live, begun, counted) = (zero(), zero(), zero());
        let tallies = plan.job.workloads.iter().map(|_| Tally::default()).collect();
        Rc::new(Self {
            rt,
            plan,
            transport,
            recorder,
            stats,
            replies: Replies::default(),
            workspace: RefCell::default(),
            drafts: Drafts::default(),
            lane,
            lanes,
            start_ns,
            tallies,
            live,
            begun,
            counted,
        })
    }

    /// A user, or the schedule of a workload, begins.
    pub fn begin(&self) {
        self.live.set(self.live.get() + 1);
        self.begun.set(self.begun.get() + 1);
    }

    /// It has ended.
    pub fn end(&self) {
        self.live.set(self.live.get() - 1);
    }

    /// It has ended because the number asked for was reached.
    pub fn note_count(&self) {
        self.counted.set(self.counted.get() + 1);
    }

    /// An arrival is due, or a user begins an iteration.
    pub fn note_due(&self, workload: usize) {
        self.stats.due.add(1);
        self.tallies[workload].begin();
    }

    /// Whether all ended like that.
    pub fn ended_by_count(&self) -> bool {
        self.counted.get() == self.begun.get()
    }

    /// Adds the tasks of all workloads.
    pub fn populate(self: &Rc<Self>) {
        for (index, workload) in self.plan.job.workloads.iter().enumerate() {
            match &workload.load {
                Load::Closed(closed) => user::spawn(self, index, closed),
                Load::Open(open) => arrivals::spawn(self, index, open),
            }
        }
    }

    /// Runs until all load has ended.
    pub fn run(self: &Rc<Self>) -> io::Result<()> {
        let worker = Rc::clone(self);
        self.rt.spawn(async move {
            loop {
                let at_ns = worker.rt.now() + FLUSH_NS;
                if worker.rt.sleep_until(at_ns).await == Wait::Cut {
                    return;
                }
                worker.recorder.flush_due(worker.rt.recent());
                worker.stats.connections.set(worker.transport.connections_opened());
            }
        });
        self.rt.run(|| self.live.get() == 0)
    }

    fn listen(self: &Rc<Self>, bell: Arc<Bell>, control: Arc<Control>) -> io::Result<()> {
        let id = bell.register(&self.rt)?;
        let worker = Rc::clone(self);
        self.rt.spawn(async move {
            loop {
                if control.is_stopped() {
                    worker.rt.cut();
                }
                if bell.heard(&worker.rt, id).await == Wait::Cut {
                    return;
                }
                worker.transport.on_bell();
            }
        });
        Ok(())
    }
}

/// The life of a load thread.
pub fn main(seed: Seed) -> io::Result<Harvest> {
    let tid = rustix::thread::gettid().as_raw_nonzero().get();
    seed.stats.tid.store(tid as u32, Relaxed);
    let spin_ns = machine::affordable_spin_ns(&seed.plan.job);
    machine::prepare_thread(&seed.plan.job, seed.thread, |finding| tell(&seed.notes, Note::Finding(finding)));
    let Ok(start_ns) = seed.start.recv() else {
        let log = seed.log.finish().map(Some)?;
        let (tallies, usage) = (Box::default(), machine::ThreadUsage::default());
        return Ok(Harvest { log, last_end_ns: 0, by_count: false, tallies, usage });
    };
    let before = machine::ThreadUsage::read(tid as u32);
    let rt = Rc::new(Reactor::new(Clock::Monotonic)?);
    rt.spin_below(spin_ns);
    let instances = Rc::new(RefCell::new(Instances::new(seed.plan.instance_names())));
    let lane = seed.plan.job.lane(seed.thread);
    let (log, notes, place) = (Some(seed.log), seed.notes.clone(), (lane, start_ns));
    let recorder = Recorder::new(log, &seed.plan, &seed.stats, notes, &instances, place);
    recorder.begin();
    let client = Client::new(Parts {
        rt: Rc::clone(&rt),
        plan: Arc::clone(&seed.plan),
        thread: lane,
        instances,
        resolver: seed.resolver,
        mailbox: Mailbox::new(Arc::clone(&seed.bell)),
        on_trouble: on_trouble(seed.notes.clone(), start_ns),
    });
    let worker = Worker::new(rt, seed.plan, client, recorder, seed.stats, place);
    worker.listen(seed.bell, seed.control)?;
    pulse::spawn(&worker);
    worker.populate();
    worker.run()?;
    worker.stats.connections.set(worker.transport.connections_opened());
    worker.stats.spun_ns.set(worker.rt.spun_ns());
    let usage = machine::ThreadUsage::read(tid as u32).since(&before);
    let log = worker.recorder.finish().transpose()?;
    let (last_end_ns, by_count) = (worker.recorder.last_end_ns(), worker.ended_by_count());
    let tallies = worker.tallies.clone();
    Ok(Harvest { log, last_end_ns, by_count, tallies, usage })
}

/// Tells of each trouble once.
fn on_trouble(notes: Sender<Note>, start_ns: u64) -> OnTrouble {
    let told = RefCell::new(std::collections::BTreeSet::new());
    Box::new(move |what, why| {
        if !told.borrow_mut().insert(what) {
            return;
        }
        let (name, message, advice) = match what {
            Trouble::Short(Shortage::Descriptors) => {
                ("out_of_descriptors", "no file descriptor left for a connection".into(), advice::DESCRIPTORS)
            }
            Trouble::Short(Shortage::Ports) => {
                ("out_of_ports", "no local port left for a connection".into(), advice::PORTS)
            }
            Trouble::Short(Shortage::Connections) => {
                ("out_of_connections", "limits.max_connections was reached".into(), advice::CONNECTIONS)
            }
            Trouble::Dns => ("dns_failed", why.to_string(), advice::DNS),
            Trouble::Tls => ("tls_failed", why.to_string(), advice::TLS),
            Trouble::Proxy => ("proxy_failed", why.to_string(), advice::PROXY),
            Trouble::Protocol => ("protocol_failed", why.to_string(), advice::PROTOCOL),
            Trouble::Source => ("source_address_failed", why.to_string(), advice::SOURCE),
        };
        let now_ns = crate::transport::reactor::monotonic_ns();
        let t_us = (now_ns as i64 - start_ns as i64) / 1000;
        tell(&notes, Note::Finding(Finding { name, t_us, value: 1.0, message, advice }));
    })
}
