//! Where idle connections are kept.
#![allow(clippy::vec_box, reason = "a connection changes hands twice a request: it is moved as a pointer")]

use super::connection::Connection;
use crate::job::{Job, Spread};

/// The connections that a user may use.
pub enum Lane {
    /// Its own.
    Own(Vec<Box<Connection>>),
    /// Those of the thread: last in, first out, so that as few as possible are in use.
    Shared,
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

    /// A usable connection, if there is one; those that have died are closed on the way.
    pub fn take(&mut self, lane: &mut Lane, wanted: Wanted) -> Option<Box<Connection>> {
        match lane {
            Lane::Own(own) => {
                while let Some(at) = own.iter().position(|c| wanted.fits(c)) {
                    let connection = own.swap_remove(at);
                    if connection.is_usable() {
                        return Some(connection);
                    }
                }
                None
            }
            Lane::Shared => {
                let stack = self.stack(wanted.target, wanted.endpoint.unwrap_or(0));
                std::iter::from_fn(|| stack.pop()).find(|c| c.is_usable())
            }
        }
    }

    pub fn put(&mut self, lane: &mut Lane, connection: Box<Connection>) {
        match lane {
            Lane::Own(own) => own.push(connection),
            Lane::Shared => self.stack(connection.target, connection.endpoint).push(connection),
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
