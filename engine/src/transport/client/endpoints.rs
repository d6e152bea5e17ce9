//! The instances as addresses, and the choice between them.
use crate::job::{BaseUrl, Spread};
use crate::journey::Plan;
use crate::rng::Rng;
use crate::transport::reactor::TaskId;
use crate::transport::resolver::Answer;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

/// A name that could not be resolved is asked for again after this.
const RETRY_NS: u64 = 1_000_000_000;

pub(super) struct Endpoints {
    all: Vec<Endpoint>,
    /// Endpoints of each target.
    ranges: Vec<Range<usize>>,
    /// Where the next turn of each target begins.
    turns: Vec<usize>,
    spread: Spread,
}

struct Endpoint {
    url: BaseUrl,
    name: Name,
    outstanding: u32,
    turn: usize,
}

/// What is known of an address.
enum Name {
    Unknown,
    Asked(Vec<TaskId>),
    Known(Vec<SocketAddr>),
    Failed { at_ns: u64 },
}

/// What a look at the addresses gave.
pub(super) enum Look {
    /// Here they are.
    Known(Vec<SocketAddr>),
    /// The resolver has to be asked first.
    Ask(BaseUrl),
    /// It has been asked; the task will be woken.
    Wait,
    /// There are none.
    Failed,
}

impl Endpoints {
    pub fn new(plan: &Plan, thread: usize) -> Self {
        let (mut all, mut ranges) = (Vec::new(), Vec::new());
        for target in &plan.job.targets {
            let first = all.len();
            all.extend(target.instances.iter().map(|instance| Endpoint::new(&instance.url)));
            ranges.push(first..all.len());
        }
        // Threads take turns from different places, or all of them would begin with the first instance.
        let turns = ranges.iter().map(|_| thread).collect();
        Self { all, ranges, turns, spread: plan.job.spread }
    }

    /// The instance for a request that may go to any; none when an idle connection decides.
    pub fn choose(&mut self, target: usize) -> Option<usize> {
        match self.spread {
            Spread::PerConnectionRandom => None,
            Spread::PerRequestRoundRobin => Some(self.turn(target)),
            Spread::LeastOutstanding => {
                let first = self.turn(target);
                let range = self.ranges[target].clone();
                // Ties go round, or the first instance would serve alone when there is little load.
                let order = (first..range.end).chain(range.start..first);
                order.min_by_key(|at| self.all[*at].outstanding)
            }
        }
    }

    fn turn(&mut self, target: usize) -> usize {
        let range = &self.ranges[target];
        let turn = &mut self.turns[target];
        *turn = turn.wrapping_add(1);
        range.start + turn.wrapping_sub(1) % range.len().max(1)
    }

    /// The instance for a new connection.
    pub fn draw(&self, target: usize, rng: &mut Rng) -> usize {
        let range = &self.ranges[target];
        range.start + rng.below(range.len() as u64) as usize
    }

    /// Place of an endpoint among the instances of its target.
    pub fn local(&self, target: usize, endpoint: usize) -> usize {
        endpoint - self.ranges[target].start
    }

    pub fn begin(&mut self, endpoint: usize) {
        self.all[endpoint].outstanding += 1;
    }

    pub fn end(&mut self, endpoint: usize) {
        self.all[endpoint].outstanding -= 1;
    }

    /// The addresses to try, in their order.
    pub fn look(&mut self, endpoint: usize, task: TaskId, now_ns: u64) -> Look {
        let endpoint = &mut self.all[endpoint];
        match &mut endpoint.name {
            Name::Known(addresses) => {
                // Addresses of the preferred family take turns; the others are for when those do not answer.
                let preferred =
                    addresses.iter().take_while(|a| a.is_ipv4() == addresses[0].is_ipv4()).count();
                let mut order = addresses.clone();
                order[..preferred].rotate_left(endpoint.turn % preferred.max(1));
                endpoint.turn = endpoint.turn.wrapping_add(1);
                Look::Known(order)
            }
            Name::Asked(waiters) => {
                waiters.push(task);
                Look::Wait
            }
            Name::Failed { at_ns } if now_ns < *at_ns + RETRY_NS => Look::Failed,
            Name::Unknown | Name::Failed { .. } => {
                endpoint.name = Name::Asked(vec![task]);
                Look::Ask(endpoint.url.clone())
            }
        }
    }

    /// Takes an answer in; gives the tasks that waited for it.
    pub fn resolved(&mut self, answer: Answer, now_ns: u64) -> Vec<TaskId> {
        let name = if answer.addresses.is_empty() {
            Name::Failed { at_ns: now_ns }
        } else {
            Name::Known(answer.addresses)
        };
        match std::mem::replace(&mut self.all[answer.endpoint].name, name) {
            Name::Asked(waiters) => waiters,
            _ => Vec::new(),
        }
    }

    /// Whether the answer of the resolver is still to come.
    pub fn is_asked(&self, endpoint: usize) -> bool {
        matches!(self.all[endpoint].name, Name::Asked(_))
    }
}

impl Endpoint {
    fn new(url: &BaseUrl) -> Self {
        // A literal address needs no resolver, and its rows have no time for one.
        let literal = url.host.parse::<IpAddr>().ok().map(|ip| vec![SocketAddr::new(ip, url.port)]);
        Self { url: url.clone(), name: literal.map_or(Name::Unknown, Name::Known), outstanding: 0, turn: 0 }
    }
}
