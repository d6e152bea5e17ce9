//! Where idle connections are kept, and for how long.
#![allow(clippy::vec_box, reason = "a connection changes hands twice a request: it is moved as a pointer")]

use super::connection::Connection;
use super::links::OwnLink;
use crate::job::{ConnectionPolicy, Connections, Job, Spread};

/// The connections that a user may use.
pub struct Lane {
    /// Whose they are, and how long they are kept.
    pub(super) rule: Connections,
    /// Its own.
    pub(super) idle: Vec<Box<Connection>>,
    /// Its own of HTTP/2.
    pub(super) links: Vec<OwnLink>,
}

impl Lane {
    /// A user without connections.
    pub fn new(rule: Connections) -> Self {
        Self { rule, idle: Vec::new(), links: Vec::new() }
    }

    /// Whether the next request is the last that a connection serves.
    pub(super) fn is_last(&self, served: u64) -> bool {
        self.rule.policy == ConnectionPolicy::New
            || self.rule.max_requests.is_some_and(|most| served + 1 >= most)
    }
}

/// Whether a connection may serve no more requests.
fn is_over(rule: &Connections, connection: &Connection, now_ns: u64) -> bool {
    let age_us = now_ns.saturating_sub(connection.opened_ns) / 1000;
    rule.max_requests.is_some_and(|most| connection.served >= most)
        || rule.max_age_us.is_some_and(|most| age_us >= most)
}

/// Whether an idle connection can serve another request.
fn has_use_for(rule: &Connections, connection: &mut Connection, now_ns: u64) -> bool {
    !is_over(rule, connection, now_ns) && connection.is_usable()
}

/// Idle connections of a thread.
pub(super) struct Idle {
    stacks: Vec<Vec<Box<Connection>>>,
    /// Kept by endpoint, since every request names its endpoint; else by target.
    by_endpoint: bool,
}

/// What a connection is wanted for.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub target: usize,
    /// Any of the target if none.
    pub endpoint: Option<usize>,
}

impl Wanted {
    fn fits(self, connection: &Connection) -> bool {
        connection.target == self.target && self.endpoint.is_none_or(|e| e == connection.endpoint)
    }
}

impl Idle {
    pub fn new(job: &Job) -> Self {
        let endpoints: usize = job.targets.iter().map(|t| t.instances.len()).sum();
        let stacks = (0..endpoints.max(job.targets.len())).map(|_| Vec::new()).collect();
        Self { stacks, by_endpoint: job.spread != Spread::PerConnectionRandom }
    }

    fn stack(&mut self, target: usize, endpoint: usize) -> &mut Vec<Box<Connection>> {
        &mut self.stacks[if self.by_endpoint { endpoint } else { target }]
    }

    /// A usable connection, if there is one; those that have died or grown old are closed on the way.
    pub fn take(&mut self, lane: &mut Lane, wanted: Wanted, now_ns: u64) -> Option<Box<Connection>> {
        let rule = lane.rule;
        match rule.policy {
            ConnectionPolicy::PerUser => {
                while let Some(at) = lane.idle.iter().position(|c| wanted.fits(c)) {
                    let mut connection = lane.idle.swap_remove(at);
                    if has_use_for(&rule, &mut connection, now_ns) {
                        return Some(connection);
                    }
                }
                None
            }
            ConnectionPolicy::Pool => {
                let stack = self.stack(wanted.target, wanted.endpoint.unwrap_or(0));
                std::iter::from_fn(|| stack.pop())
                    .find_map(|mut c| has_use_for(&rule, &mut c, now_ns).then_some(c))
            }
            ConnectionPolicy::New => None,
        }
    }

    /// Keeps a connection that has become idle, unless it has served its time.
    pub fn put(&mut self, lane: &mut Lane, connection: Box<Connection>, now_ns: u64) {
        let rule = lane.rule;
        if is_over(&rule, &connection, now_ns) {
            return;
        }
        match rule.policy {
            ConnectionPolicy::PerUser => lane.idle.push(connection),
            ConnectionPolicy::Pool => {
                let stack = self.stack(connection.target, connection.endpoint);
                stack.push(connection);
                // The one at the bottom has been idle for longest, and nobody else may ever look at it again.
                if is_over(&rule, &stack[0], now_ns) {
                    stack.remove(0);
                }
            }
            ConnectionPolicy::New => {}
        }
    }

    /// Closes an idle connection, so that another can be opened in its place.
    pub fn evict(&mut self) -> bool {
        let longest = self.stacks.iter_mut().max_by_key(|stack| stack.len());
        longest.is_some_and(|stack| {
            !stack.is_empty() && {
                drop(stack.remove(0));
                true
            }
        })
    }
}
