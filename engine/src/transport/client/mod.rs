//! The client of a load thread.
mod connect;
mod connection;
mod consent;
mod endpoints;
mod exchange;
mod instances;
mod link;
mod links;
mod multiplex;
mod names;
mod pool;
mod prepared;
mod proxy;
mod ready;
mod secure;

pub use instances::{Instances, MAX_NAMES as MAX_INSTANCES};
pub use pool::Lane;

use super::http2::Terms;
use super::reactor::Reactor;
use super::resolver::{Mailbox, Resolver};
use super::tls::{self, Buffers};
use super::{Call, Exchange, Reply, Shortage, Transport, Trouble};
use crate::job::{Job, Protocol, Target};
use crate::journey::Plan;
use crate::rng::Rng;
use connection::Tally;
use endpoints::Endpoints;
use names::Names;
use prepared::Prepared;
use rustls::ClientConfig;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Bytes read at once, into a buffer that all connections of a thread share.
const READ_BYTES: usize = 64 * 1024;

/// The buffer that all connections of a thread read into.
type Scratch = Rc<RefCell<Box<[u8]>>>;

/// See the module.
pub struct Client {
    rt: Rc<Reactor>,
    plan: Arc<Plan>,
    endpoints: RefCell<Endpoints>,
    names: RefCell<Names>,
    /// Which of the source addresses is the next one's.
    source_turn: Cell<usize>,
    pool: RefCell<pool::Idle>,
    links: RefCell<links::Links>,
    terms: Rc<Terms>,
    blocks: Prepared<Box<[u8]>>,
    ready: Prepared<ready::Ready>,
    /// Shared read buffer: an answer that comes in one piece is never copied.
    scratch: Scratch,
    /// Buffer for requests that are not ready.
    out: RefCell<Vec<u8>>,
    rng: RefCell<Rng>,
    tally: Rc<Tally>,
    instances: Rc<RefCell<Instances>>,
    resolver: Resolver,
    mailbox: Arc<Mailbox>,
    on_trouble: OnTrouble,
    /// For each target with TLS.
    tls: Vec<Option<Arc<ClientConfig>>>,
    tls_buffers: Rc<Buffers>,
}

/// Is told of every trouble and what there is to say about it.
pub type OnTrouble = Box<dyn Fn(Trouble, &dyn std::fmt::Display)>;

/// What a client is made of.
pub struct Parts {
    /// Waits for its sockets.
    pub rt: Rc<Reactor>,
    /// Targets, limits, spread.
    pub plan: Arc<Plan>,
    /// Number of the load thread.
    pub thread: usize,
    /// Names of the instances, shared with the recorder.
    pub instances: Rc<RefCell<Instances>>,
    /// For names.
    pub resolver: Resolver,
    /// Where its answers arrive.
    pub mailbox: Arc<Mailbox>,
    /// Told when something fails that a row has only a name for.
    pub on_trouble: OnTrouble,
}

impl Client {
    /// A client without connections.
    pub fn new(parts: Parts) -> Self {
        let job = &parts.plan.job;
        let limit = job.connection_bound(parts.thread);
        let mut names = Names::new(job.dns.cache);
        Self {
            endpoints: RefCell::new(Endpoints::new(&parts.plan, parts.thread, &mut names)),
            names: RefCell::new(names),
            source_turn: Cell::new(parts.thread),
            pool: RefCell::new(pool::Idle::new(job)),
            links: RefCell::new(links::Links::new(job)),
            terms: Rc::new(terms(job, &parts.instances)),
            blocks: multiplex::blocks(&parts.plan),
            ready: ready::requests(&parts.plan),
            scratch: Rc::new(RefCell::new(vec![0; READ_BYTES].into_boxed_slice())),
            out: RefCell::default(),
            rng: RefCell::new(Rng::from_parts(&[job.seed, 0x636c_6965_6e74, parts.thread as u64])),
            tally: Rc::new(Tally::new(limit)),
            instances: parts.instances,
            resolver: parts.resolver,
            mailbox: parts.mailbox,
            on_trouble: parts.on_trouble,
            tls: tls_configs(&parts.plan),
            tls_buffers: Rc::default(),
            rt: parts.rt,
            plan: parts.plan,
        }
    }
}

/// What all HTTP/2 connections of a thread have to know.
fn terms(job: &Job, instances: &Rc<RefCell<Instances>>) -> Terms {
    Terms {
        instance_header: job.instance_header.as_deref().map(str::to_ascii_lowercase),
        max_header_bytes: job.limits.max_header_bytes,
        max_body_bytes: job.limits.max_body_bytes,
        instances: Rc::clone(instances),
    }
}

fn tls_configs(plan: &Plan) -> Vec<Option<Arc<ClientConfig>>> {
    let own = |(config, target): (&Option<Arc<ClientConfig>>, &Target)| {
        config.as_ref().map(|config| tls::for_thread(config, target.tls.resumption))
    };
    plan.tls.iter().zip(&plan.job.targets).map(own).collect()
}

impl Transport for Client {
    type Lane = Lane;

    fn lane(&self, workload: usize) -> Lane {
        Lane::new(self.plan.job.workloads[workload].connections)
    }

    /// Takes in what the resolver found.
    fn on_bell(&self) {
        self.take_answers();
    }

    fn connections_opened(&self) -> u64 {
        self.tally.opened.get()
    }

    async fn exchange(&self, lane: &mut Lane, call: &Call<'_>, reply: &mut Reply) -> Exchange {
        match self.plan.job.targets[call.target].protocol {
            Protocol::Http1 => self.carry_out(lane, call, reply).await,
            Protocol::Http2 | Protocol::Auto => self.carry_over(lane, call, reply).await,
        }
    }
}
