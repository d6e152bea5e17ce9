//! What the resolver has said, and who waits for it to speak.
use crate::job::DnsCache;
use crate::transport::reactor::TaskId;
use crate::transport::resolver::Answer;
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

/// A name that could not be resolved is asked for again after this.
const RETRY_NS: u64 = 1_000_000_000;

/// A host and a port, by number.
pub(super) type Place = usize;

/// All hosts that connections are made to.
pub(super) struct Names {
    all: Vec<Name>,
    cache: DnsCache,
    asked: HashMap<u64, Rc<Question>>,
    /// Number of the next question.
    next: u64,
}

struct Name {
    host: String,
    port: u16,
    state: State,
    /// Which of the addresses is the next one's.
    turn: usize,
}

/// What is known of a name.
enum State {
    Unknown,
    Asked(Rc<Question>),
    Known { addresses: Rc<[SocketAddr]>, until_ns: u64 },
    Failed { until_ns: u64 },
}

/// A question and, once it is there, its answer: no addresses if there are none.
pub(super) struct Question {
    place: Place,
    answer: RefCell<Option<Rc<[SocketAddr]>>>,
    waiters: RefCell<Vec<TaskId>>,
}

impl Question {
    /// The answer, if it is there.
    pub fn answer(&self) -> Option<Rc<[SocketAddr]>> {
        self.answer.borrow().clone()
    }
}

/// What a look at a name gave.
pub(super) enum Look {
    /// Its addresses.
    Known(Rc<[SocketAddr]>),
    /// Somebody has asked; the task will be woken.
    Wait(Rc<Question>),
    /// The resolver has to be asked this, under this number.
    Ask(u64, Rc<Question>),
    /// It has none.
    Failed,
}

impl Names {
    pub fn new(cache: DnsCache) -> Self {
        Self { all: Vec::new(), cache, asked: HashMap::new(), next: 0 }
    }

    /// The number of a host and port.
    pub fn place(&mut self, host: &str, port: u16) -> Place {
        if let Some(at) = self.all.iter().position(|name| name.host == host && name.port == port) {
            return at;
        }
        // A literal address needs no resolver, and its rows have no time for one.
        let literal = host.parse::<IpAddr>().ok().map(|ip| Rc::from([SocketAddr::new(ip, port)]));
        let known = |addresses| State::Known { addresses, until_ns: u64::MAX };
        self.all.push(Name {
            host: host.into(),
            port,
            state: literal.map_or(State::Unknown, known),
            turn: 0,
        });
        self.all.len() - 1
    }

    /// Host and port of a place.
    pub fn host(&self, place: Place) -> (&str, u16) {
        (&self.all[place].host, self.all[place].port)
    }

    /// What is known, or has to be done to know it.
    pub fn look(&mut self, place: Place, task: TaskId, now_ns: u64) -> Look {
        match &self.all[place].state {
            State::Known { addresses, until_ns } if now_ns < *until_ns => {
                return Look::Known(Rc::clone(addresses));
            }
            State::Asked(question) => {
                question.waiters.borrow_mut().push(task);
                return Look::Wait(Rc::clone(question));
            }
            State::Failed { until_ns } if now_ns < *until_ns => return Look::Failed,
            State::Unknown | State::Known { .. } | State::Failed { .. } => {}
        }
        let waiters = RefCell::new(vec![task]);
        let question = Rc::new(Question { place, answer: RefCell::default(), waiters });
        // Where every connection asks for itself, nobody joins another's question.
        if self.cache != DnsCache::Never {
            self.all[place].state = State::Asked(Rc::clone(&question));
        }
        let number = self.next;
        self.next += 1;
        self.asked.insert(number, Rc::clone(&question));
        Look::Ask(number, question)
    }

    /// Takes an answer in; gives the tasks that waited for it.
    pub fn resolved(&mut self, answer: Answer, now_ns: u64) -> Vec<TaskId> {
        let Some(question) = self.asked.remove(&answer.number) else { return Vec::new() };
        let addresses: Rc<[SocketAddr]> = answer.addresses.into();
        let until_ns = match self.cache {
            DnsCache::Ttl => now_ns.saturating_add(answer.valid_ns),
            DnsCache::Forever => u64::MAX,
            DnsCache::Never => 0,
        };
        if self.cache != DnsCache::Never {
            self.all[question.place].state = if addresses.is_empty() {
                State::Failed { until_ns: now_ns + RETRY_NS }
            } else {
                State::Known { addresses: Rc::clone(&addresses), until_ns }
            };
        }
        // Those who waited have an answer even if it is worth nothing to anybody later.
        *question.answer.borrow_mut() = Some(addresses);
        question.waiters.take()
    }

    /// The order in which the next connection tries addresses: those of the first family take turns, the others are for
    /// when none of them answers.
    pub fn order(&mut self, place: Place, addresses: &[SocketAddr]) -> Vec<SocketAddr> {
        let turn = &mut self.all[place].turn;
        let mut order = addresses.to_vec();
        let preferred = addresses.iter().take_while(|a| a.is_ipv4() == addresses[0].is_ipv4()).count();
        order[..preferred].rotate_left(*turn % preferred.max(1));
        *turn = turn.wrapping_add(1);
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(number: u64, last: &[u8], valid_ns: u64) -> Answer {
        let address = |n: &u8| SocketAddr::from(([10, 0, 0, *n], 80));
        Answer { number, addresses: last.iter().map(address).collect(), valid_ns, failure: None }
    }

    #[test]
    fn one_asks_and_the_others_wait() {
        let mut names = Names::new(DnsCache::Ttl);
        let place = names.place("shop", 80);
        assert_eq!(names.place("shop", 80), place);
        let Look::Ask(number, question) = names.look(place, 1, 0) else { panic!("has to ask") };
        assert!(matches!(names.look(place, 2, 0), Look::Wait(_)));
        assert_eq!(names.resolved(answer(number, &[1, 2], 100), 10), [1, 2]);
        assert_eq!(question.answer().map(|a| a.len()), Some(2));
        assert!(matches!(names.look(place, 1, 109), Look::Known(_)));
        assert!(matches!(names.look(place, 1, 110), Look::Ask(..)));
    }

    #[test]
    fn an_answer_of_no_duration_is_good_for_those_who_asked() {
        let mut names = Names::new(DnsCache::Ttl);
        let place = names.place("shop", 80);
        let Look::Ask(number, question) = names.look(place, 1, 5) else { panic!("has to ask") };
        names.resolved(answer(number, &[1], 0), 5);
        assert!(question.answer().is_some() && matches!(names.look(place, 1, 5), Look::Ask(..)));
    }

    #[test]
    fn caches_hold_as_long_as_they_shall() {
        for (cache, asks) in [(DnsCache::Forever, false), (DnsCache::Never, true)] {
            let mut names = Names::new(cache);
            let place = names.place("shop", 80);
            let Look::Ask(number, _) = names.look(place, 1, 0) else { panic!("has to ask") };
            assert_eq!(matches!(names.look(place, 2, 0), Look::Ask(..)), asks);
            names.resolved(answer(number, &[1], 1), 0);
            assert_eq!(matches!(names.look(place, 1, u64::MAX - 1), Look::Ask(..)), asks);
        }
    }

    #[test]
    fn a_name_without_addresses_is_asked_for_again_later() {
        let mut names = Names::new(DnsCache::Forever);
        let place = names.place("shop", 80);
        let Look::Ask(number, _) = names.look(place, 1, 0) else { panic!("has to ask") };
        names.resolved(answer(number, &[], 0), 0);
        assert!(matches!(names.look(place, 1, RETRY_NS - 1), Look::Failed));
        assert!(matches!(names.look(place, 1, RETRY_NS), Look::Ask(..)));
    }

    #[test]
    fn addresses_of_the_first_family_take_turns() {
        let mut names = Names::new(DnsCache::Ttl);
        let place = names.place("shop", 80);
        let all: Vec<SocketAddr> =
            ["10.0.0.1:80", "10.0.0.2:80", "[::1]:80"].iter().map(|a| a.parse().expect("valid")).collect();
        let firsts: Vec<_> = (0..4).map(|_| names.order(place, &all)).collect();
        assert_eq!(firsts[0], all);
        assert_eq!(firsts[1], [all[1], all[0], all[2]]);
        assert_eq!(firsts[2], all);
    }

    #[test]
    fn literal_addresses_ask_nobody() {
        let mut names = Names::new(DnsCache::Never);
        let place = names.place("::1", 80);
        assert!(matches!(names.look(place, 1, 0), Look::Known(_)));
    }
}
