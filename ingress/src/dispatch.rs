//! Every decision: what becomes of a request that comes, and of those that are held when something changes.
//!
//! There is no clock here and no network: who calls says what time it is, and gets what there is to tell ([`Dispatch::take_events`])
//! and whom to wake ([`Dispatch::take_woken`]). What is held is held because nothing can take it, so each change that makes room
//! serves the queue first, in the order of arrival.

use crate::area::Area;
use crate::instances::{Added, Instance, Instances};
use crate::limits::{Change, Limits};
use crate::outcome::{Made, Outcome, Refusal};
use crate::picker::Picker;
use crate::protocol::{Event, Left, Name, Probe, Reason, State, Stats};
use crate::queue::{Queue, Ticket};
use crate::rate::Minute;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// While instances are ready but full, capacity is asked for no more often.
const WANTED_EVERY_NS: u64 = 100_000_000;

/// A request goes to an instance. Whoever has it ends it with [`Dispatch::end`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Which.
    pub id: u64,
    /// Its name.
    pub instance: Name,
    /// Where it listens.
    pub address: SocketAddr,
    /// How long the request was held.
    pub held_ns: u64,
    /// Did it have to wait for this instance to start?
    pub cold: bool,
}

/// What becomes of a request that comes.
#[derive(Debug)]
pub enum Arrival {
    /// It goes on at once.
    Go(Grant),
    /// It is held.
    Held(Ticket),
    /// It is answered here and now.
    Refused(Refusal),
}

/// An instance that is to be probed until it is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeTask {
    /// Which.
    pub id: u64,
    /// Where it listens.
    pub address: SocketAddr,
    /// How.
    pub probe: Probe,
}

/// Requests, instances and what is known of both. `W` is who waits for a request that is held.
#[derive(Debug)]
pub struct Dispatch<W> {
    limits: Limits,
    picker: Picker,
    instances: Instances,
    queue: Queue<W>,
    minute: Minute,
    ending: bool,
    /// Held and in flight.
    under_way: Area,
    held: Area,
    from_ns: u64,
    wanted_ns: Option<u64>,
    tally: Tally,
    events: Vec<Event>,
    woken: Vec<(W, Result<Grant, Refusal>)>,
}

/// Counts of the current interval.
#[derive(Debug, Default)]
struct Tally {
    arrivals: u64,
    held_total: u64,
    answered: BTreeMap<u16, u64>,
    made: BTreeMap<Made, u64>,
    left: Left,
    cut: u64,
}

impl Tally {
    fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Answered(status) => *self.answered.entry(status).or_default() += 1,
            Outcome::Made(made) => *self.made.entry(made).or_default() += 1,
            Outcome::LeftHeld => self.left.held += 1,
            Outcome::Left => self.left.in_flight += 1,
            Outcome::Cut => self.cut += 1,
        }
    }
}

impl<W> Dispatch<W> {
    /// Nothing held and no instance.
    pub fn new(random: fastrand::Rng, now_ns: u64) -> Self {
        Self {
            limits: Limits::default(),
            picker: Picker::new(random),
            instances: Instances::default(),
            queue: Queue::default(),
            minute: Minute::new(now_ns),
            ending: false,
            under_way: Area::new(now_ns),
            held: Area::new(now_ns),
            from_ns: now_ns,
            wanted_ns: None,
            tally: Tally::default(),
            events: Vec::new(),
            woken: Vec::new(),
        }
    }

    /// What holds now.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Requests held or in flight.
    pub fn under_way(&self) -> u64 {
        self.under_way.value()
    }

    /// What has happened since the last time, in its order.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Those who waited and now have an instance, or know that they get none.
    pub fn take_woken(&mut self) -> Vec<(W, Result<Grant, Refusal>)> {
        std::mem::take(&mut self.woken)
    }

    // --- requests --------------------------------------------------------------------------------------------

    /// A request comes; `waiter` is made if it is held.
    pub fn arrive(&mut self, now_ns: u64, waiter: impl FnOnce() -> W) -> Arrival {
        self.tally.arrivals += 1;
        let in_minute = self.minute.count(now_ns);
        if let Some(refusal) = self.refused_on_arrival(in_minute) {
            self.tally.count(Outcome::Made(refusal.made));
            return Arrival::Refused(refusal);
        }
        if self.queue.is_empty()
            && let Some(grant) = self.grant(now_ns, now_ns)
        {
            self.under_way.up(now_ns);
            return Arrival::Go(grant);
        }
        if let Some(refusal) = self.limits.refused_by_room(self.held.value(), self.ready()) {
            self.tally.count(Outcome::Made(refusal.made));
            return Arrival::Refused(refusal);
        }
        let ticket = self.queue.push(now_ns, waiter());
        self.under_way.up(now_ns);
        self.held.up(now_ns);
        self.tally.held_total += 1;
        self.want(Reason::Arrival, now_ns);
        Arrival::Held(ticket)
    }

    fn refused_on_arrival(&self, in_minute: u64) -> Option<Refusal> {
        if self.ending {
            return Some(ending());
        }
        self.limits.refused_by_rate(in_minute, self.under_way.value())
    }

    /// A held request gives up, if it is still held.
    pub fn give_up(&mut self, ticket: Ticket, outcome: Outcome, now_ns: u64) -> bool {
        let was_held = self.queue.leave(ticket).is_some();
        if was_held {
            self.held.down(now_ns);
            self.under_way.down(now_ns);
            self.tally.count(outcome);
        }
        was_held
    }

    /// A request that went to an instance has ended.
    pub fn end(&mut self, id: u64, outcome: Outcome, now_ns: u64) {
        self.under_way.down(now_ns);
        self.tally.count(outcome);
        if let Some(instance) = self.instances.get(id) {
            instance.end(outcome, now_ns);
            if instance.state == State::Draining && instance.in_flight.value() == 0 {
                self.events.push(Event::Drained { instance: instance.name.clone(), t_ns: now_ns });
            }
        }
        self.serve_held(now_ns);
    }

    fn serve_held(&mut self, now_ns: u64) {
        while let Some(arrived_ns) = self.queue.oldest_ns() {
            let Some(grant) = self.grant(arrived_ns, now_ns) else { return };
            if let Some(held) = self.queue.pop() {
                self.held.down(now_ns);
                self.woken.push((held.waiter, Ok(grant)));
            }
        }
    }

    /// An instance for a request that came at `arrived_ns`, if one has room.
    fn grant(&mut self, arrived_ns: u64, now_ns: u64) -> Option<Grant> {
        let candidates = self.instances.ready().map(Instance::candidate);
        let id = self.picker.pick(self.limits.policy, candidates)?;
        let instance = self.instances.get(id)?;
        let held_ns = now_ns.saturating_sub(arrived_ns);
        if !instance.has_served {
            self.events.push(Event::FirstRequest { instance: instance.name.clone(), t_ns: now_ns, held_ns });
        }
        instance.begin(now_ns);
        Some(Grant {
            id,
            instance: instance.name.clone(),
            address: instance.address,
            held_ns,
            cold: instance.ready_ns.is_none_or(|ready_ns| ready_ns > arrived_ns),
        })
    }

    fn want(&mut self, reason: Reason, now_ns: u64) {
        let ready = self.ready();
        let is_news = match reason {
            Reason::Lost => true,
            // Scaling from zero must not wait; an instance that is full is told often enough.
            Reason::Arrival if ready == 0 => self.queue.len() == 1,
            Reason::Arrival => self.wanted_ns.is_none_or(|last_ns| now_ns >= last_ns + WANTED_EVERY_NS),
        };
        if is_news {
            self.wanted_ns = Some(now_ns);
            let held = self.held.value();
            let in_flight = self.under_way.value() - held;
            self.events.push(Event::Wanted { t_ns: now_ns, reason, held, in_flight, ready });
        }
    }

    fn ready(&self) -> u64 {
        self.instances.ready().count() as u64
    }

    // --- instances -------------------------------------------------------------------------------------------

    /// Another instance; how it is to be probed, if it is.
    pub fn add(&mut self, added: Added, now_ns: u64) -> Result<Option<ProbeTask>, String> {
        let instance = self.instances.add(added, now_ns)?;
        let (id, address) = (instance.id, instance.address);
        let task = instance.probe.clone().map(|probe| ProbeTask { id, address, probe });
        if task.is_none() {
            self.become_ready(id, 0, now_ns);
        }
        Ok(task)
    }

    /// A probed instance answered.
    pub fn become_ready(&mut self, id: u64, probes: u64, now_ns: u64) {
        let Some(instance) = self.starting(id) else { return };
        instance.state = State::Ready;
        instance.ready_ns.get_or_insert(now_ns);
        let (name, added_ns) = (instance.name.clone(), instance.added_ns);
        self.events.push(Event::InstanceReady { instance: name, t_ns: now_ns, added_ns, probes });
        self.serve_held(now_ns);
    }

    /// Is an instance still to be probed?
    pub fn is_starting(&mut self, id: u64) -> bool {
        self.starting(id).is_some()
    }

    /// A probed instance did not get ready in the time that it was given.
    pub fn gave_up(&mut self, id: u64, probes: u64, reason: String, now_ns: u64) {
        let Some(instance) = self.starting(id) else { return };
        instance.state = State::GivenUp;
        let name = instance.name.clone();
        self.events.push(Event::GaveUp { instance: name, t_ns: now_ns, probes, reason });
    }

    /// An instance took no connection; how it is to be probed before it gets another request, if it is not already.
    pub fn refused(&mut self, id: u64, reason: String, now_ns: u64) -> Option<ProbeTask> {
        let instance = self.instances.get(id).filter(|one| one.state == State::Ready)?;
        instance.state = State::Starting;
        let task =
            ProbeTask { id, address: instance.address, probe: instance.probe.clone().unwrap_or_default() };
        let name = instance.name.clone();
        self.events.push(Event::InstanceUnready { instance: name, t_ns: now_ns, reason });
        self.note_loss(State::Ready, now_ns);
        Some(task)
    }

    /// Nothing new for an instance.
    pub fn drain(&mut self, name: &str, now_ns: u64) -> Result<(), String> {
        let instance = self.known(name)?;
        let before = std::mem::replace(&mut instance.state, State::Draining);
        if before != State::Draining && instance.in_flight.value() == 0 {
            let instance = instance.name.clone();
            self.events.push(Event::Drained { instance, t_ns: now_ns });
        }
        self.note_loss(before, now_ns);
        Ok(())
    }

    /// An instance is forgotten; requests that it still serves end as they end.
    pub fn remove(&mut self, name: &str, now_ns: u64) -> Result<(), String> {
        let instance = self.known(name)?;
        let before = std::mem::replace(&mut instance.state, State::Removed);
        let (instance, in_flight) = (instance.name.clone(), instance.in_flight.value());
        self.events.push(Event::Removed { instance, t_ns: now_ns, in_flight });
        self.note_loss(before, now_ns);
        Ok(())
    }

    /// What `limits` says.
    pub fn change(&mut self, change: &Change) {
        self.limits.change(change);
    }

    fn known(&mut self, name: &str) -> Result<&mut Instance, String> {
        self.instances.named(name).ok_or_else(|| format!("instance {name:?} is not known; `add` it first"))
    }

    fn starting(&mut self, id: u64) -> Option<&mut Instance> {
        self.instances.get(id).filter(|one| one.state == State::Starting)
    }

    /// Says that capacity is wanted when the last instance went while requests are held.
    fn note_loss(&mut self, before: State, now_ns: u64) {
        if before == State::Ready && !self.queue.is_empty() && self.ready() == 0 {
            self.want(Reason::Lost, now_ns);
        }
    }

    // --- the end, and the counts ------------------------------------------------------------------------------

    /// No more requests; those that are held are told.
    pub fn begin_end(&mut self, now_ns: u64) {
        self.ending = true;
        while let Some(held) = self.queue.pop() {
            self.held.down(now_ns);
            self.under_way.down(now_ns);
            self.tally.count(Outcome::Made(Made::Ending));
            self.woken.push((held.waiter, Err(ending())));
        }
    }

    /// What happened since the last time; a new interval begins.
    pub fn take_stats(&mut self, now_ns: u64) -> Stats {
        let from_ns = std::mem::replace(&mut self.from_ns, now_ns);
        let tally = std::mem::take(&mut self.tally);
        let held = self.held.value();
        Stats {
            from_ns,
            to_ns: now_ns,
            arrivals: tally.arrivals,
            held,
            held_now_longest_ns: self
                .queue
                .oldest_ns()
                .map_or(0, |oldest_ns| now_ns.saturating_sub(oldest_ns)),
            held_total: tally.held_total,
            in_flight: self.under_way.value() - held,
            ready: self.ready(),
            concurrency: self.under_way.take_mean(from_ns, now_ns),
            held_concurrency: self.held.take_mean(from_ns, now_ns),
            answered: tally.answered,
            made: Made::ALL.iter().map(|made| (made.name(), *tally.made.get(made).unwrap_or(&0))).collect(),
            left: tally.left,
            cut: tally.cut,
            instances: self.instances.take_stats(from_ns, now_ns),
        }
    }
}

fn ending() -> Refusal {
    Refusal { made: Made::Ending, text: "the ingress ends".to_owned() }
}

#[cfg(test)]
mod tests;
