//! The HTTP/1.1 client of a load thread.
mod connect;
mod connection;
mod endpoints;
mod exchange;
mod instances;
mod pool;

pub use instances::Instances;
pub use pool::Lane;

use super::reactor::Reactor;
use super::resolver::{Mailbox, Resolver};
use super::{Call, Exchange, Shortage, Transport};
use crate::journey::Plan;
use crate::rng::Rng;
use connection::Tally;
use endpoints::Endpoints;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Bytes read at once, into a buffer that all connections of a thread share.
const READ_BYTES: usize = 64 * 1024;

/// See the module.
pub struct Client {
    rt: Rc<Reactor>,
    plan: Arc<Plan>,
    endpoints: RefCell<Endpoints>,
    pool: RefCell<pool::Idle>,
    /// Shared read buffer: an answer that comes in one piece is never copied.
    scratch: RefCell<Box<[u8]>>,
    /// Buffer for requests made from templates.
    out: RefCell<Vec<u8>>,
    rng: RefCell<Rng>,
    tally: Rc<Tally>,
    instances: Rc<RefCell<Instances>>,
    resolver: Resolver,
    mailbox: Arc<Mailbox>,
    on_shortage: Box<dyn Fn(Shortage)>,
}

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
    /// Told when the machine runs out of something.
    pub on_shortage: Box<dyn Fn(Shortage)>,
}

impl Client {
    /// A client without connections.
    pub fn new(parts: Parts) -> Self {
        let job = &parts.plan.job;
        let limit = (job.limits.max_connections as usize / job.threads).max(1);
        Self {
            endpoints: RefCell::new(Endpoints::new(&parts.plan, parts.thread)),
            pool: RefCell::new(pool::Idle::new(job)),
            scratch: RefCell::new(vec![0; READ_BYTES].into_boxed_slice()),
            out: RefCell::default(),
            rng: RefCell::new(Rng::from_parts(&[job.seed, 0x636c_6965_6e74, parts.thread as u64])),
            tally: Rc::new(Tally::new(limit)),
            instances: parts.instances,
            resolver: parts.resolver,
            mailbox: parts.mailbox,
            on_shortage: parts.on_shortage,
            rt: parts.rt,
            plan: parts.plan,
        }
    }
}

impl Transport for Client {
    type Lane = Lane;

    fn lane(&self, own: bool) -> Lane {
        if own { Lane::Own(Vec::new()) } else { Lane::Shared }
    }

    /// Takes in what the resolver found.
    fn on_bell(&self) {
        for answer in self.mailbox.take() {
            let waiters = self.endpoints.borrow_mut().resolved(answer, self.rt.now());
            for task in waiters {
                self.rt.wake(task);
            }
        }
    }

    fn connections_opened(&self) -> u64 {
        self.tally.opened.get()
    }

    async fn exchange(&self, lane: &mut Lane, call: &Call<'_>) -> Exchange {
        self.carry_out(lane, call).await
    }
}
