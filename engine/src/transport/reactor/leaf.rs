//! The leaf futures: all that a task can wait for.
use super::{Reactor, SocketId, TaskId};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::AsFd;
use std::future::poll_fn;
use std::io;
use std::task::Poll;

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// What was waited for is there.
    Ready,
    /// Its time was over first.
    Expired,
    /// The run was cut off.
    Cut,
}

/// What to wait for on a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Something to read, or its end.
    Read,
    /// Room to write.
    Write,
    /// Either.
    Any,
}

impl Reactor {
    /// Watches a socket, edge-triggered, once for its whole life.
    pub fn register(&self, fd: impl AsFd) -> io::Result<SocketId> {
        let id = self.sockets.borrow_mut().add();
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.waiter.borrow().epoll, fd, EventData::new_u64(id.data()), flags)
            .map_err(|error| {
                self.sockets.borrow_mut().remove(id);
                error.into()
            })
            .map(|()| id)
    }

    /// Forgets a socket; closing its descriptor takes it out of epoll.
    pub fn unregister(&self, id: SocketId) {
        self.sockets.borrow_mut().remove(id);
    }

    /// There was nothing more to read; true if there is an end to be read all the same.
    pub fn clear_readable(&self, id: SocketId) {
        let mut sockets = self.sockets.borrow_mut();
        let socket = sockets.get(id);
        socket.readable = socket.hung_up;
    }

    /// There was no more room to write.
    pub fn clear_writable(&self, id: SocketId) {
        self.sockets.borrow_mut().get(id).writable = false;
    }

    /// Whether an event said so since it was last cleared.
    pub fn is_readable(&self, id: SocketId) -> bool {
        self.sockets.borrow_mut().get(id).readable
    }

    /// Whether the other side has closed, as far as events told.
    pub fn is_hung_up(&self, id: SocketId) -> bool {
        self.sockets.borrow_mut().get(id).hung_up
    }

    /// Waits for a socket until `deadline_ns`.
    pub async fn socket(&self, id: SocketId, interest: Interest, deadline_ns: u64) -> Wait {
        poll_fn(|_| {
            let mut sockets = self.sockets.borrow_mut();
            let socket = sockets.get(id);
            let task = self.current();
            if let Some(end) = self.ended(socket.is_ready(interest), deadline_ns) {
                socket.waiter = None;
                self.deadlines.borrow_mut().clear(task);
                return Poll::Ready(end);
            }
            socket.waiter = Some(task);
            if deadline_ns < u64::MAX {
                self.deadlines.borrow_mut().set(task, deadline_ns);
            }
            Poll::Pending
        })
        .await
    }

    /// Waits for a socket, or until `ready` gives true; it is asked whenever the task is woken.
    pub async fn socket_or(&self, id: SocketId, interest: Interest, mut ready: impl FnMut() -> bool) -> Wait {
        poll_fn(|_| {
            // Asked first: it may say that there is no such socket any more.
            if let Some(end) = self.ended(ready(), u64::MAX) {
                return Poll::Ready(end);
            }
            let mut sockets = self.sockets.borrow_mut();
            let socket = sockets.get(id);
            if socket.is_ready(interest) {
                socket.waiter = None;
                return Poll::Ready(Wait::Ready);
            }
            socket.waiter = Some(self.current());
            Poll::Pending
        })
        .await
    }

    /// Sleeps until `at_ns`, to the precision of the machine. Never [`Wait::Ready`].
    pub async fn sleep_until(&self, at_ns: u64) -> Wait {
        poll_fn(|_| {
            let task = self.current();
            if let Some(end) = self.ended(false, at_ns) {
                self.sleeps.borrow_mut().clear(task);
                return Poll::Ready(end);
            }
            self.sleeps.borrow_mut().set(task, at_ns);
            Poll::Pending
        })
        .await
    }

    /// Waits until `ready` gives true; it is asked whenever the task is woken, by [`Reactor::wake`] or at `deadline_ns`.
    pub async fn until(&self, deadline_ns: u64, mut ready: impl FnMut() -> bool) -> Wait {
        poll_fn(|_| {
            let task = self.current();
            if let Some(end) = self.ended(ready(), deadline_ns) {
                self.sleeps.borrow_mut().clear(task);
                return Poll::Ready(end);
            }
            if deadline_ns < u64::MAX {
                self.sleeps.borrow_mut().set(task, deadline_ns);
            }
            Poll::Pending
        })
        .await
    }

    /// Lets all other ready tasks run first.
    pub async fn yield_now(&self) {
        self.yield_as(|task| self.wake(task)).await;
    }

    /// Lets the first of the ready tasks run first.
    pub async fn yield_to_first(&self) {
        self.yield_as(|task| {
            let mut ready = self.ready.borrow_mut();
            let place = ready.len().min(1);
            ready.insert(place, task);
        })
        .await;
    }

    async fn yield_as(&self, enqueue: impl Fn(TaskId)) {
        let mut yielded = false;
        poll_fn(|_| {
            if yielded {
                return Poll::Ready(());
            }
            yielded = true;
            enqueue(self.current());
            Poll::Pending
        })
        .await;
    }

    fn ended(&self, ready: bool, deadline_ns: u64) -> Option<Wait> {
        if self.is_cut() {
            Some(Wait::Cut)
        } else if ready {
            Some(Wait::Ready)
        } else if deadline_ns <= self.recent() {
            Some(Wait::Expired)
        } else {
            None
        }
    }
}
