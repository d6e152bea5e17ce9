//! A single-threaded executor over epoll, one for each load thread.
//!
//! Journeys are written as `async fn`; what they wait for is one of three leaf futures of [`Reactor`]: a socket, a point
//! in time, or another task. There are no wakers to clone and no atomics: an event names a socket, a socket its waiting
//! task. It sleeps when it has nothing to do, but for waits that are shorter than falling asleep and waking up take
//! ([`Reactor::spin_below`]). An `io_uring` back-end would sit behind the same leaf futures.
mod bell;
mod clock;
mod heap;
mod leaf;
mod sockets;
mod wait;

pub use bell::Bell;
pub use clock::{Clock, monotonic_ns};
pub use leaf::{Interest, Wait};
pub use sockets::SocketId;

use heap::LazyHeap;
use rustix::event::epoll;
use sockets::Sockets;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Names a task.
pub type TaskId = u32;
/// Tasks run in a row at most, before new events are asked for.
const RUNS: usize = 1024;
/// The kernel may end a long wait late by up to a thousandth of it (its own rule for select, poll and epoll): a wait
/// longer than this is cut short by more than that and then finished by a second, short one.
const LONG_WAIT_NS: u64 = 20_000_000;
/// A timer that is later than this says that the loop itself was away: stopped, frozen, or without a CPU.
const AWAY_NS: u64 = 20_000_000;

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// See the module.
pub struct Reactor {
    waiter: RefCell<wait::Waiter>,
    clock: Clock,
    now: Cell<u64>,
    current: Cell<TaskId>,
    tasks: RefCell<Vec<Option<Task>>>,
    free: RefCell<Vec<TaskId>>,
    ready: RefCell<VecDeque<TaskId>>,
    sockets: RefCell<Sockets>,
    sleeps: RefCell<LazyHeap>,
    deadlines: RefCell<LazyHeap>,
    cut: Cell<bool>,
    spin_ns: Cell<u64>,
    spun_ns: Cell<u64>,
}

impl Reactor {
    /// A reactor without tasks.
    pub fn new(clock: Clock) -> io::Result<Self> {
        Ok(Self {
            waiter: RefCell::new(wait::Waiter::new(epoll::create(epoll::CreateFlags::CLOEXEC)?)),
            now: Cell::new(clock.read()),
            clock,
            current: Cell::new(0),
            tasks: RefCell::default(),
            free: RefCell::default(),
            ready: RefCell::default(),
            sockets: RefCell::default(),
            sleeps: RefCell::default(),
            deadlines: RefCell::default(),
            cut: Cell::new(false),
            spin_ns: Cell::new(0),
            spun_ns: Cell::new(0),
        })
    }

    /// From now on, does not sleep when the next timer is due within this time, but asks for events until then.
    pub fn spin_below(&self, ns: u64) {
        self.spin_ns.set(ns);
    }

    /// Time in which it asked, and there was nothing to do: used CPU, and yet in reserve.
    pub fn spun_ns(&self) -> u64 {
        self.spun_ns.get()
    }

    /// Reads the clock.
    pub fn now(&self) -> u64 {
        let now = self.clock.read();
        self.now.set(now);
        now
    }

    /// The clock as it was last read.
    pub fn recent(&self) -> u64 {
        self.now.get()
    }

    /// Adds a task; it runs for the first time when its turn comes.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) -> TaskId {
        let id = self.add(task);
        self.wake(id);
        id
    }

    /// Adds a task that runs before all others.
    pub fn spawn_first(&self, task: impl Future<Output = ()> + 'static) -> TaskId {
        let id = self.add(task);
        self.wake_first(id);
        id
    }

    fn add(&self, task: impl Future<Output = ()> + 'static) -> TaskId {
        let mut tasks = self.tasks.borrow_mut();
        let id = self.free.borrow_mut().pop().unwrap_or_else(|| {
            tasks.push(None);
            tasks.len() as TaskId - 1
        });
        tasks[id as usize] = Some(Box::pin(task));
        id
    }

    /// The task that is running.
    pub fn current(&self) -> TaskId {
        self.current.get()
    }

    /// Lets a task look again at what it waits for.
    pub fn wake(&self, task: TaskId) {
        self.ready.borrow_mut().push_back(task);
    }

    /// As [`Reactor::wake`], before all others.
    pub fn wake_first(&self, task: TaskId) {
        self.ready.borrow_mut().push_front(task);
    }

    /// Ends every wait of every task with [`Wait::Cut`], now and from now on.
    pub fn cut(&self) {
        self.cut.set(true);
        let tasks = self.tasks.borrow();
        let mut ready = self.ready.borrow_mut();
        ready.extend((0..tasks.len() as TaskId).filter(|id| tasks[*id as usize].is_some()));
    }

    /// Whether [`Reactor::cut`] was called.
    pub fn is_cut(&self) -> bool {
        self.cut.get()
    }

    /// Runs until `done` says so; it is asked whenever nothing else is to be done.
    pub fn run(&self, done: impl Fn() -> bool) -> io::Result<()> {
        loop {
            let all_ran = self.run_ready()?;
            if all_ran && done() {
                return Ok(());
            }
            let timeout_ns = if all_ran { self.next_timeout() } else { Some(0) };
            if self.clock.is_virtual() {
                self.clock.advance(timeout_ns);
            } else if all_ran && timeout_ns.is_some_and(|ns| ns <= self.spin_ns.get()) {
                self.spin()?;
            } else {
                self.wait(timeout_ns)?;
            }
            self.now();
            self.fire_timers()?;
        }
    }

    /// Asks for events once, without sleeping.
    fn spin(&self) -> io::Result<()> {
        let began_ns = self.recent();
        if self.wait(Some(0))? == 0 {
            self.spun_ns.set(self.spun_ns.get() + (self.now() - began_ns));
        }
        Ok(())
    }

    /// Runs what is ready; false if there is more of it than is good for those who wait.
    fn run_ready(&self) -> io::Result<bool> {
        for _ in 0..RUNS {
            let Some(id) = self.ready.borrow_mut().pop_front() else { return Ok(true) };
            self.poll(id);
            // What became due while tasks ran goes first: an arrival does not wait for a batch of answers.
            if self.sleeps.borrow().next() <= self.now.get() {
                self.fire_timers()?;
            }
        }
        Ok(false)
    }

    /// What came in while the loop was away was in time, and goes before the timers that say that its time is over.
    fn catch_up(&self) -> io::Result<()> {
        self.look()?;
        let count = self.ready.borrow().len();
        for _ in 0..count.min(RUNS) {
            let Some(id) = self.ready.borrow_mut().pop_front() else { break };
            self.poll(id);
        }
        Ok(())
    }

    /// Takes in all that sockets have to say, without waiting.
    fn look(&self) -> io::Result<()> {
        while !self.clock.is_virtual() && self.wait(Some(0))? == wait::EVENTS {}
        Ok(())
    }

    fn poll(&self, id: TaskId) {
        // The task is taken out while it runs, since it may add others.
        let Some(mut task) = self.tasks.borrow_mut()[id as usize].take() else { return };
        self.current.set(id);
        // Leaf futures register the current task themselves.
        match task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => self.tasks.borrow_mut()[id as usize] = Some(task),
            Poll::Ready(()) => {
                self.sleeps.borrow_mut().forget(id);
                self.deadlines.borrow_mut().forget(id);
                self.free.borrow_mut().push(id);
            }
        }
    }

    fn fire_timers(&self) -> io::Result<()> {
        let now = self.now.get();
        let (sleep, deadline) = (self.sleeps.borrow().next(), self.deadlines.borrow().next());
        if now.saturating_sub(sleep.min(deadline)) > AWAY_NS {
            self.catch_up()?;
        } else if deadline <= now {
            // The last wait may have been interrupted before it saw anything, or be long over.
            self.look()?;
        }
        let mut ready = self.ready.borrow_mut();
        self.deadlines.borrow_mut().fire(now, |task| ready.push_front(task));
        let mut first = VecDeque::new();
        self.sleeps.borrow_mut().fire(now, |task| first.push_back(task));
        while let Some(task) = first.pop_back() {
            ready.push_front(task);
        }
        Ok(())
    }

    /// Time until the next timer; `None` if there is none.
    fn next_timeout(&self) -> Option<u64> {
        let next = self.sleeps.borrow().next().min(self.deadlines.borrow().next());
        (next < u64::MAX).then(|| next.saturating_sub(self.now()))
    }

    /// Waits for events, and gives how many there were.
    fn wait(&self, timeout_ns: Option<u64>) -> io::Result<usize> {
        let timeout_ns = timeout_ns.map(|ns| if ns > LONG_WAIT_NS { ns - ns / 250 } else { ns });
        let mut sockets = self.sockets.borrow_mut();
        let mut ready = self.ready.borrow_mut();
        self.waiter.borrow_mut().wait(timeout_ns, |event| ready.extend(sockets.note(event)))
    }
}

#[cfg(test)]
mod tests;
