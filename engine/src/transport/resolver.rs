//! Name resolution on a thread of its own: the resolver of the system blocks, and a load thread never does.
use super::reactor::Bell;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Asks; one for the whole run.
#[derive(Clone)]
pub struct Resolver(Sender<Query>);

/// Where the answers for one load thread arrive.
pub struct Mailbox {
    answers: Mutex<Vec<Answer>>,
    bell: Arc<Bell>,
}

struct Query {
    endpoint: usize,
    host: String,
    port: u16,
    mailbox: Arc<Mailbox>,
}

/// What became of a question.
pub struct Answer {
    /// Whose address was asked for.
    pub endpoint: usize,
    /// Empty if the name has no address.
    pub addresses: Vec<SocketAddr>,
}

impl Resolver {
    /// Starts the thread; it ends when the last copy of this is gone.
    pub fn start() -> io::Result<Self> {
        let (sender, queries) = channel::<Query>();
        let serve = move || {
            for query in queries {
                let found = (query.host.as_str(), query.port).to_socket_addrs();
                let addresses = found.map(Iterator::collect).unwrap_or_default();
                query.mailbox.put(Answer { endpoint: query.endpoint, addresses });
            }
        };
        std::thread::Builder::new().name("resolver".into()).spawn(serve)?;
        Ok(Self(sender))
    }

    /// The answer will come to `mailbox`.
    pub fn ask(&self, endpoint: usize, host: &str, port: u16, mailbox: &Arc<Mailbox>) {
        let query = Query { endpoint, host: host.to_owned(), port, mailbox: Arc::clone(mailbox) };
        if let Err(lost) = self.0.send(query) {
            lost.0.mailbox.put(Answer { endpoint, addresses: Vec::new() });
        }
    }
}

impl Mailbox {
    /// Rings `bell` for every answer.
    pub fn new(bell: Arc<Bell>) -> Arc<Self> {
        Arc::new(Self { answers: Mutex::default(), bell })
    }

    fn put(&self, answer: Answer) {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).push(answer);
        self.bell.ring();
    }

    /// All that has arrived.
    pub fn take(&self) -> Vec<Answer> {
        std::mem::take(&mut *self.answers.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
