//! Which of the shared connections a request is given, and when another is opened.
use super::link::Link;
use crate::job::{Connections, Job, Spread};
use crate::transport::Outcome;
use crate::transport::reactor::{Reactor, TaskId};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A connection that is being opened for several requests.
#[derive(Default)]
pub struct Opening {
    link: RefCell<Option<Rc<Link>>>,
    /// It could not be, as this; or others had better try for themselves.
    ended: Cell<Option<Result<(), Outcome>>>,
    joined: Cell<u32>,
    waiters: RefCell<Vec<TaskId>>,
}

impl Opening {
    /// There will be no connection; those who wait for it end with `outcome`, or try for themselves.
    pub fn fail(&self, outcome: Option<Outcome>, rt: &Reactor) {
        self.ended.set(Some(outcome.map_or(Ok(()), Err)));
        self.wake(rt);
    }

    /// The connection is there; what the server allows is not known yet.
    pub fn opened(&self, link: &Rc<Link>) {
        *self.link.borrow_mut() = Some(Rc::clone(link));
    }

    /// There is something to be known.
    pub fn is_over(&self) -> bool {
        self.ended.get().is_some() || self.link.borrow().as_ref().is_some_and(|link| link.is_settled())
    }

    /// How it failed, if it did.
    pub fn failure(&self) -> Option<Outcome> {
        self.ended.get().and_then(Result::err)
    }

    /// One more can wait for it. Its first request is that of the one who opens it.
    fn has_room(&self, max_streams: usize, most_before: u64) -> bool {
        let before = u64::from(self.joined.get()) + 1;
        before < max_streams as u64 && before < most_before
    }

    pub(super) fn wake(&self, rt: &Reactor) {
        self.waiters.borrow_mut().drain(..).for_each(|task| rt.wake(task));
    }
}

/// A connection of one user; no requests are begun on it once it is dropped.
pub struct OwnLink(pub(super) Rc<Link>);

impl Drop for OwnLink {
    fn drop(&mut self) {
        self.0.shut();
    }
}

/// What is to be done for a request.
pub enum Found {
    /// Here it can go.
    Link(Rc<Link>),
    /// One that it may be able to use is being opened.
    Wait(Rc<Opening>),
    /// It has to open one, for others too.
    Open(Rc<Opening>),
}

/// The shared connections of a thread.
pub(super) struct Links {
    groups: Vec<Group>,
    /// Kept by endpoint, since every request names its endpoint; else by target.
    by_endpoint: bool,
}

#[derive(Default)]
struct Group {
    /// Those with room: last in, first out, so that as few as possible are in use.
    free: Vec<Rc<Link>>,
    openings: Vec<Rc<Opening>>,
    /// The server has chosen HTTP/1.1: nobody waits for a connection that only one can use.
    http1: bool,
    /// Requests that the server took on the last connection that it left with some that it did not take.
    life: Option<u64>,
}

/// What a shared connection is wanted for.
#[derive(Clone, Copy)]
pub struct Need<'a> {
    pub target: usize,
    /// If every request names it.
    pub endpoint: Option<usize>,
    /// Requests at once on a connection.
    pub max_streams: usize,
    /// How long connections are kept.
    pub rule: &'a Connections,
    /// The one that has refused it.
    pub avoid: Option<&'a Rc<Link>>,
}

impl Need<'_> {
    fn fits(&self, link: &Link) -> bool {
        link.is_usable(self.rule) && link.live() < self.max_streams
    }

    /// Requests that a connection may have had before this one. One that was refused is not given to a connection whose
    /// server would refuse it again; the others are not held back by what may have been an exception.
    fn most_before(&self, life: Option<u64>) -> u64 {
        life.filter(|_| self.avoid.is_some()).map_or(u64::MAX, |life| life.max(1))
    }
}

impl Links {
    pub fn new(job: &Job) -> Self {
        let endpoints: usize = job.targets.iter().map(|t| t.instances.len()).sum();
        let groups = (0..endpoints.max(job.targets.len())).map(|_| Group::default()).collect();
        Self { groups, by_endpoint: job.spread != Spread::PerConnectionRandom }
    }

    fn group(&mut self, target: usize, endpoint: usize) -> &mut Group {
        &mut self.groups[if self.by_endpoint { endpoint } else { target }]
    }

    /// Looks for a place.
    pub fn find(&mut self, need: &Need<'_>, task: TaskId) -> Found {
        let group = self.group(need.target, need.endpoint.unwrap_or(0));
        group.settle(need);
        let most_before = need.most_before(group.life);
        let is_avoided = |link: &Rc<Link>| need.avoid.is_some_and(|avoid| Rc::ptr_eq(avoid, link));
        while let Some(link) = group.free.last() {
            let avoided = is_avoided(link);
            if !avoided && need.fits(link) {
                let lasts =
                    |link: &&Rc<Link>| link.served() < most_before && !is_avoided(link) && need.fits(link);
                if let Some(link) = group.free.iter().rev().find(lasts) {
                    return Found::Link(Rc::clone(link));
                }
                break;
            }
            if avoided && link.live() == 0 {
                // It takes no requests, and nobody would ever close it.
                link.shut();
            }
            link.listed.set(false);
            group.free.pop();
        }
        if !group.http1
            && let Some(opening) = group.openings.iter().find(|o| o.has_room(need.max_streams, most_before))
        {
            opening.joined.set(opening.joined.get() + 1);
            opening.waiters.borrow_mut().push(task);
            return Found::Wait(Rc::clone(opening));
        }
        let opening = Rc::<Opening>::default();
        group.openings.push(Rc::clone(&opening));
        Found::Open(opening)
    }

    /// A request on it has ended: there may be room again.
    pub fn ended(&mut self, link: &Rc<Link>, need: &Need<'_>) {
        if !link.listed.get() && need.fits(link) {
            link.listed.set(true);
            self.group(link.target, link.endpoint).free.push(Rc::clone(link));
        }
    }

    /// The server has ended a connection and said which of its requests it has not taken.
    pub fn note_end(&mut self, link: &Link) {
        if let Some(taken) = link.taken() {
            self.group(link.target, link.endpoint).life = Some(taken);
        }
    }

    /// Connections to it turned out to be of HTTP/1.1.
    pub fn note_http1(&mut self, target: usize, endpoint: usize) {
        self.group(target, endpoint).http1 = true;
    }

    /// Closes one that nobody uses, so that another can be opened in its place.
    pub fn evict(&mut self) -> bool {
        for group in &mut self.groups {
            if let Some(at) = group.free.iter().position(|link| link.live() == 0) {
                let link = group.free.remove(at);
                link.listed.set(false);
                link.close();
                return true;
            }
        }
        false
    }
}

impl Group {
    /// Takes those in that have been opened, and forgets those that could not be.
    fn settle(&mut self, need: &Need<'_>) {
        if self.openings.is_empty() {
            return;
        }
        for opening in self.openings.extract_if(.., |opening| opening.is_over()) {
            let link = opening.link.borrow_mut().take();
            // All that wait look at it before they look here.
            opening.ended.set(opening.ended.get().or(Some(Ok(()))));
            if let Some(link) = link.filter(|link| !link.listed.get() && need.fits(link)) {
                link.listed.set(true);
                self.free.push(link);
            }
        }
    }
}
