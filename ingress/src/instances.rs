//! The instances that are known: their lives, their load, and what became of the requests that they got.

use crate::area::Area;
use crate::outcome::{Made, Outcome};
use crate::picker::Candidate;
use crate::protocol::{InstanceStats, Name, Probe, State};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// One instance.
#[derive(Debug)]
pub struct Instance {
    /// Never used again, unlike its name.
    pub id: u64,
    /// What others call it.
    pub name: Name,
    /// Where it listens.
    pub address: SocketAddr,
    /// Requests that it serves at most; 0 = no limit.
    pub concurrency: u64,
    /// How it is found to be ready.
    pub probe: Option<Probe>,
    /// Of its life.
    pub state: State,
    /// Requests that it serves.
    pub in_flight: Area,
    /// When it was added.
    pub added_ns: u64,
    /// When it was ready for the first time.
    pub ready_ns: Option<u64>,
    /// Did it ever get a request?
    pub has_served: bool,
    requests: u64,
    answered: BTreeMap<u16, u64>,
    refused: u64,
    broke: u64,
    cut: u64,
}

impl Instance {
    /// As the picker sees it.
    pub fn candidate(&self) -> Candidate {
        Candidate { id: self.id, in_flight: self.in_flight.value(), concurrency: self.concurrency }
    }

    /// A request goes to it.
    pub fn begin(&mut self, now_ns: u64) {
        self.in_flight.up(now_ns);
        self.requests += 1;
        self.has_served = true;
    }

    /// One of its requests has ended.
    pub fn end(&mut self, outcome: Outcome, now_ns: u64) {
        self.in_flight.down(now_ns);
        match outcome {
            Outcome::Answered(status) => *self.answered.entry(status).or_default() += 1,
            Outcome::Made(Made::Refused) => self.refused += 1,
            Outcome::Made(Made::Broke) => self.broke += 1,
            Outcome::Cut => self.cut += 1,
            Outcome::Made(_) | Outcome::LeftHeld | Outcome::Left => {}
        }
    }

    /// Counts since the last time, and a new interval.
    fn take_stats(&mut self, from_ns: u64, now_ns: u64) -> InstanceStats {
        InstanceStats {
            state: self.state,
            in_flight: self.in_flight.value(),
            concurrency: self.in_flight.take_mean(from_ns, now_ns),
            requests: std::mem::take(&mut self.requests),
            answered: std::mem::take(&mut self.answered),
            refused: std::mem::take(&mut self.refused),
            broke: std::mem::take(&mut self.broke),
            cut: std::mem::take(&mut self.cut),
        }
    }
}

/// All instances, in the order in which they were added.
#[derive(Debug, Default)]
pub struct Instances {
    all: Vec<Instance>,
    next: u64,
}

/// What is told when an instance is added.
#[derive(Clone, Debug)]
pub struct Added {
    /// A name that no known instance has.
    pub name: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// Requests that it serves at most; 0 = no limit.
    pub concurrency: u64,
    /// How it is found to be ready.
    pub probe: Option<Probe>,
}

impl Instances {
    /// Takes one in; what is wrong with it, otherwise.
    pub fn add(&mut self, added: Added, now_ns: u64) -> Result<&mut Instance, String> {
        let Added { name, address, concurrency, probe } = added;
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!("instance {name:?}: a name is one or more visible ASCII characters"));
        }
        if self.named(&name).is_some() {
            return Err(format!(
                "instance {name:?} is known already; `remove` it first, or use another name"
            ));
        }
        if !address.ip().is_loopback() {
            return Err(format!("instance {name:?}: {address} is not on loopback, and only that is allowed"));
        }
        let id = self.next;
        self.next += 1;
        self.all.push(Instance {
            id,
            name: name.into(),
            address,
            concurrency,
            probe,
            state: State::Starting,
            in_flight: Area::new(now_ns),
            added_ns: now_ns,
            ready_ns: None,
            has_served: false,
            requests: 0,
            answered: BTreeMap::new(),
            refused: 0,
            broke: 0,
            cut: 0,
        });
        let last = self.all.len() - 1;
        Ok(&mut self.all[last])
    }

    /// By its id; none that is forgotten.
    pub fn get(&mut self, id: u64) -> Option<&mut Instance> {
        let at = self.all.binary_search_by_key(&id, |one| one.id).ok()?;
        self.all.get_mut(at)
    }

    /// By its name; none that was removed.
    pub fn named(&mut self, name: &str) -> Option<&mut Instance> {
        self.all.iter_mut().find(|one| one.state != State::Removed && *one.name == *name)
    }

    /// Those that take requests.
    pub fn ready(&self) -> impl Iterator<Item = &Instance> + Clone {
        self.all.iter().filter(|one| one.state == State::Ready)
    }

    /// Counts since the last time by name. Two instances of one name, one of them removed, are told as the living one.
    pub fn take_stats(&mut self, from_ns: u64, now_ns: u64) -> BTreeMap<Name, InstanceStats> {
        let mut stats: BTreeMap<Name, InstanceStats> = BTreeMap::new();
        for one in &mut self.all {
            let mut counted = one.take_stats(from_ns, now_ns);
            if let Some(before) = stats.remove(&one.name) {
                counted.join(before);
            }
            stats.insert(one.name.clone(), counted);
        }
        self.all.retain(|one| one.state != State::Removed || one.in_flight.value() > 0);
        stats
    }
}

impl InstanceStats {
    /// Adds what another of the same name did.
    fn join(&mut self, other: Self) {
        self.in_flight += other.in_flight;
        self.concurrency += other.concurrency;
        self.requests += other.requests;
        self.refused += other.refused;
        self.broke += other.broke;
        self.cut += other.cut;
        for (status, count) in other.answered {
            *self.answered.entry(status).or_default() += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(name: &str) -> Added {
        Added { name: name.to_owned(), address: "127.0.0.1:80".parse().unwrap(), concurrency: 0, probe: None }
    }

    #[test]
    fn what_cannot_be_an_instance_is_said() {
        let mut instances = Instances::default();
        instances.add(added("a"), 0).unwrap();
        let said = |instances: &mut Instances, one: Added| instances.add(one, 0).unwrap_err();
        assert!(said(&mut instances, added("a")).contains("known already"));
        assert!(said(&mut instances, added("")).contains("visible ASCII"));
        assert!(said(&mut instances, added("a\nb")).contains("visible ASCII"));
        let far = Added { address: "192.0.2.1:80".parse().unwrap(), ..added("b") };
        assert!(said(&mut instances, far).contains("192.0.2.1:80"));
    }

    #[test]
    fn a_removed_instance_is_told_until_its_last_request_has_been() {
        let mut instances = Instances::default();
        let id = instances.add(added("a"), 0).unwrap().id;
        instances.get(id).unwrap().begin(0);
        instances.get(id).unwrap().state = State::Removed;
        assert!(instances.named("a").is_none());
        let again = instances.add(added("a"), 50).unwrap().id;
        instances.get(again).unwrap().begin(50);
        instances.get(id).unwrap().end(Outcome::Answered(200), 100);
        let stats = instances.take_stats(0, 100);
        let told = &stats["a"];
        assert_eq!((told.requests, told.in_flight, told.state), (2, 1, State::Starting));
        assert!(
            (told.concurrency - 1.5).abs() < 1e-12,
            "100 ns of the old one and 50 ns of the new one in 100 ns"
        );
        assert!(instances.get(id).is_none());
    }
}
