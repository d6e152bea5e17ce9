//! A connection that many requests share (HTTP/2), and the task that serves it.
//!
//! Requests are written into the session; its task sends what all of them wrote in one go, and wakes those whose answers
//! have come.
use super::Scratch;
use super::connection::Connection;
use super::links::Opening;
use crate::job::Connections;
use crate::transport::Outcome;
use crate::transport::http2::{Session, Terms};
use crate::transport::reactor::{Interest, Reactor, SocketId, TaskId, Wait};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Full buffers read in a row before others get their turn.
const READS_IN_A_ROW: u32 = 4;

/// See the module.
pub struct Link {
    rt: Rc<Reactor>,
    pub(super) session: RefCell<Session>,
    /// None once it is closed.
    connection: RefCell<Option<Box<Connection>>>,
    socket: SocketId,
    pub(super) target: usize,
    pub(super) endpoint: usize,
    task: Cell<TaskId>,
    /// The task will run without being woken.
    awake: Cell<bool>,
    /// The socket takes no more for now.
    stalled: Cell<bool>,
    /// Requests that were begun on it.
    served: Cell<u64>,
    opened_ns: u64,
    /// It is among those that requests are given.
    pub(super) listed: Cell<bool>,
    /// Who waits for what the server allows.
    opening: RefCell<Option<Rc<Opening>>>,
    /// How it broke the rules of TLS.
    pub(super) distrust: RefCell<Option<String>>,
}

impl Link {
    /// Starts the task of a fresh connection. `opening` is told when the server has said what it allows.
    pub fn start(
        rt: &Rc<Reactor>,
        connection: Box<Connection>,
        terms: &Rc<Terms>,
        scratch: &Scratch,
        opening: Option<Rc<Opening>>,
    ) -> Rc<Self> {
        let link = Rc::new(Self {
            rt: Rc::clone(rt),
            session: RefCell::new(Session::new(Rc::clone(terms))),
            socket: connection.id,
            target: connection.target,
            endpoint: connection.endpoint,
            connection: RefCell::new(Some(connection)),
            task: Cell::default(),
            awake: Cell::new(true),
            stalled: Cell::default(),
            served: Cell::default(),
            opened_ns: rt.recent(),
            listed: Cell::default(),
            opening: RefCell::new(opening),
            distrust: RefCell::default(),
        });
        link.task.set(rt.spawn(serve(Rc::clone(&link), Rc::clone(scratch))));
        link
    }

    /// Requests that it can take now.
    pub fn room(&self) -> usize {
        self.session.borrow().room()
    }

    /// Requests on it.
    pub fn live(&self) -> usize {
        self.session.borrow().live()
    }

    /// The server has said what it allows, or never will.
    pub fn is_settled(&self) -> bool {
        let session = self.session.borrow();
        session.is_settled() || session.is_over()
    }

    /// Whether a request can be begun on it; if it has served long enough, none ever again.
    pub fn is_usable(&self, rule: &Connections) -> bool {
        let age_ns = self.rt.recent().saturating_sub(self.opened_ns);
        if rule.max_requests.is_some_and(|most| self.served.get() >= most)
            || rule.max_age_us.is_some_and(|most| age_ns >= most.saturating_mul(1000))
        {
            self.shut();
        }
        self.room() > 0
    }

    /// Requests that were begun on it.
    pub fn served(&self) -> u64 {
        self.served.get()
    }

    /// How many of them the server has taken, if it has said that it takes no more.
    pub fn taken(&self) -> Option<u64> {
        self.session.borrow().taken()
    }

    /// A request is begun on it.
    pub fn begin(&self) {
        self.served.set(self.served.get() + 1);
    }

    /// No new requests; it is closed when the last one has ended.
    pub fn shut(&self) {
        self.session.borrow_mut().drain();
        self.poke();
    }

    /// Something is to be sent, or seen to.
    pub fn poke(&self) {
        if !self.awake.replace(true) {
            self.rt.wake(self.task.get());
        }
    }

    /// Closes it, whatever is on it.
    pub fn close(&self) {
        self.session.borrow_mut().lose(Outcome::Closed);
        self.wake_all();
        self.tell();
        *self.connection.borrow_mut() = None;
        self.poke();
    }

    /// Wakes those to whom something has happened; true if there were any.
    fn wake_all(&self) -> bool {
        let mut session = self.session.borrow_mut();
        let any = session.has_woken();
        session.take_woken().for_each(|task| self.rt.wake(task));
        any
    }

    /// Tells those that wait for room on a new connection.
    fn tell(&self) {
        if self.opening.borrow().is_some() && self.is_settled() {
            // Taken first: those who are told may look at this.
            let opening = self.opening.borrow_mut().take();
            opening.inspect(|opening| opening.wake(&self.rt));
        }
    }

    /// Reads what is there; false if there may be more.
    fn read(&self, scratch: &Scratch) -> bool {
        let mut connection = self.connection.borrow_mut();
        let Some(connection) = connection.as_deref_mut() else { return true };
        let mut session = self.session.borrow_mut();
        let mut scratch = scratch.borrow_mut();
        for _ in 0..READS_IN_A_ROW {
            if !self.rt.is_readable(self.socket) || session.failure().is_some() {
                return true;
            }
            match connection.stream.recv(&mut scratch[..]) {
                Ok(0) => session.lose(Outcome::Closed),
                Ok(count) => {
                    if connection.stream.is_drained(count, scratch.len()) {
                        self.rt.clear_readable(self.socket);
                    }
                    // An error ends all that is on the connection; the task sees that it is over.
                    let _ = session.feed(&scratch[..count], self.rt.now());
                }
                Err(Errno::AGAIN) => self.rt.clear_readable(self.socket),
                Err(Errno::INTR) => {}
                Err(Errno::PROTO) => {
                    *self.distrust.borrow_mut() = connection.stream.failure();
                    session.lose(Outcome::Tls);
                }
                Err(_) => session.lose(Outcome::Reset),
            }
        }
        false
    }

    /// Sends what is to be sent, as far as the socket takes it.
    fn flush(&self) {
        let mut connection = self.connection.borrow_mut();
        let Some(connection) = connection.as_deref_mut() else { return };
        let mut session = self.session.borrow_mut();
        self.stalled.set(false);
        while !session.outgoing().is_empty() {
            match connection.stream.send(session.outgoing()) {
                Ok(count) => session.sent(count),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.rt.clear_writable(self.socket);
                    self.stalled.set(true);
                    return;
                }
                // What the server said before it closed may still be there to be read.
                Err(_) => {
                    let all = session.outgoing().len();
                    session.sent(all);
                }
            }
        }
    }
}

/// The life of a connection.
async fn serve(link: Rc<Link>, scratch: Scratch) {
    // The preface comes before everything else, together with the first request; with TLS so do the last words of the
    // handshake, without which nothing can be read.
    link.flush();
    loop {
        let interest = if link.stalled.get() { Interest::Any } else { Interest::Read };
        let wait = link.rt.socket_or(link.socket, interest, || link.awake.get()).await;
        if wait == Wait::Cut {
            // Those who wait for answers are cut off too, and have to see that rather than a connection that has ended.
            return;
        }
        link.awake.set(true);
        let drained = link.read(&scratch);
        link.tell();
        if link.wake_all() || !drained {
            // What the others send now goes out with what is to be sent anyway; and a long answer lets others have a turn.
            link.rt.yield_now().await;
        }
        link.flush();
        link.wake_all();
        if link.session.borrow().is_over() || link.connection.borrow().is_none() {
            break;
        }
        link.awake.set(!drained);
    }
    link.awake.set(true);
    link.close();
}
