//! Asks [`Dispatch`] for every request, and waits where it says so.

use super::client;
use super::clock;
use crate::dispatch::{Arrival, Dispatch, Grant, ProbeTask};
use crate::events::Events;
use crate::outcome::{Made, Outcome, Refusal};
use crate::queue::Ticket;
use pingora_proxy::Session;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

type Verdict = Result<Grant, Refusal>;
type Waiter = oneshot::Sender<Verdict>;

/// The one [`Dispatch`] of the process, and where its events go.
#[derive(Debug)]
pub struct Admission {
    dispatch: Mutex<Dispatch<Waiter>>,
    events: Events,
}

/// Why a request goes nowhere.
#[derive(Debug)]
pub enum Denied {
    /// It is answered by the ingress.
    Refused(Refusal),
    /// Its client has left.
    Left,
}

impl Admission {
    /// Nothing held and no instance.
    pub fn new(events: Events) -> Arc<Self> {
        let dispatch = Mutex::new(Dispatch::new(fastrand::Rng::new(), clock::now_ns()));
        Arc::new(Self { dispatch, events })
    }

    /// Changes something, or looks; then wakes whom it concerns and tells what happened, in the order in which it did.
    pub fn with<T>(&self, act: impl FnOnce(&mut Dispatch<Waiter>, u64) -> T) -> T {
        let mut dispatch = self.dispatch.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock, so that time never goes back.
        let result = act(&mut dispatch, clock::now_ns());
        for (waiter, verdict) in dispatch.take_woken() {
            // One that has just given up finds it when it does; see `HeldRequest`.
            let _ = waiter.send(verdict);
        }
        for event in dispatch.take_events() {
            self.events.send(event);
        }
        result
    }

    /// Where events go.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Waits until an instance takes the request of a session, or until it is clear that none does.
    pub async fn admit(self: &Arc<Self>, session: &mut Session) -> Result<Slot, Denied> {
        let mut receiver = None;
        let (arrival, held_timeout_ms) = self.with(|dispatch, now_ns| {
            let arrival = dispatch.arrive(now_ns, || {
                let (waiter, from) = oneshot::channel();
                receiver = Some(from);
                waiter
            });
            (arrival, dispatch.limits().held_timeout_ms)
        });
        match (arrival, receiver) {
            (Arrival::Held(ticket), Some(verdict)) => {
                let held = HeldRequest { admission: self.clone(), ticket, verdict, is_over: false };
                held.wait(session, Duration::from_millis(held_timeout_ms)).await
            }
            (Arrival::Go(grant), _) => Ok(Slot::new(self.clone(), grant)),
            (Arrival::Refused(refusal), _) => Err(Denied::Refused(refusal)),
            (Arrival::Held(_), None) => unreachable!("who holds a request makes its waiter"),
        }
    }
}

/// A request that is held. However its wait ends, it leaves the queue and gives back what it was given too late.
struct HeldRequest {
    admission: Arc<Admission>,
    ticket: Ticket,
    verdict: oneshot::Receiver<Verdict>,
    is_over: bool,
}

impl HeldRequest {
    async fn wait(mut self, session: &mut Session, timeout: Duration) -> Result<Slot, Denied> {
        tokio::select! {
            biased;
            verdict = &mut self.verdict => self.end(verdict.ok()),
            () = client::left(session) => Err(Denied::Left), // dropping it does the rest
            () = tokio::time::sleep(timeout) => self.time_out(timeout),
        }
    }

    fn end(mut self, verdict: Option<Verdict>) -> Result<Slot, Denied> {
        self.is_over = true;
        match verdict {
            Some(Ok(grant)) => Ok(Slot::new(self.admission.clone(), grant)),
            Some(Err(refusal)) => Err(Denied::Refused(refusal)),
            None => Err(Denied::Left),
        }
    }

    fn time_out(mut self, timeout: Duration) -> Result<Slot, Denied> {
        let outcome = Outcome::Made(Made::Held);
        if self.admission.with(|dispatch, now_ns| dispatch.give_up(self.ticket, outcome, now_ns)) {
            self.is_over = true;
            let text = format!("no instance took the request within {} ms", timeout.as_millis());
            return Err(Denied::Refused(Refusal { made: Made::Held, text }));
        }
        // It was taken in this very moment.
        let verdict = self.verdict.try_recv().ok();
        self.end(verdict)
    }
}

impl Drop for HeldRequest {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let was_held =
            self.admission.with(|dispatch, now_ns| dispatch.give_up(self.ticket, Outcome::LeftHeld, now_ns));
        if !was_held && let Ok(Ok(grant)) = self.verdict.try_recv() {
            self.admission.with(|dispatch, now_ns| dispatch.end(grant.id, Outcome::LeftHeld, now_ns));
        }
    }
}

/// A request's place at an instance; given back when it ends, or at the latest when it is dropped.
#[derive(Debug)]
pub struct Slot {
    admission: Arc<Admission>,
    /// Whose place it is.
    pub grant: Grant,
    is_over: bool,
}

impl Slot {
    fn new(admission: Arc<Admission>, grant: Grant) -> Self {
        Self { admission, grant, is_over: false }
    }

    /// The instance took no connection: it is probed before it gets another request.
    pub fn refused(&self, reason: String) -> Option<ProbeTask> {
        self.admission.with(|dispatch, now_ns| dispatch.refused(self.grant.id, reason, now_ns))
    }

    /// The request has ended.
    pub fn end(mut self, outcome: Outcome) {
        self.is_over = true;
        self.admission.with(|dispatch, now_ns| dispatch.end(self.grant.id, outcome, now_ns));
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if !self.is_over {
            self.admission.with(|dispatch, now_ns| dispatch.end(self.grant.id, Outcome::Left, now_ns));
        }
    }
}
