//! Answers without a network, on the clock of the reactor: with a virtual clock a long run takes no time.
use super::reactor::{Reactor, Wait};
use super::{Call, Exchange, Outcome, Reply, Transport};
use std::cell::RefCell;
use std::rc::Rc;

/// What one call gets: a delay in ns and an outcome.
pub type Answer = (u64, Outcome);

type Script = dyn FnMut(u64, u64) -> Answer;

/// Takes its answers from a script.
pub struct Fake {
    rt: Rc<Reactor>,
    script: RefCell<Box<Script>>,
    calls: RefCell<Vec<u64>>,
}

impl Fake {
    /// `script` is given the number of the call and when it was started.
    pub fn new(rt: Rc<Reactor>, script: impl FnMut(u64, u64) -> Answer + 'static) -> Self {
        Self { rt, script: RefCell::new(Box::new(script)), calls: RefCell::default() }
    }

    /// When each call was started.
    pub fn starts(&self) -> Vec<u64> {
        self.calls.borrow().clone()
    }
}

impl Transport for Fake {
    type Lane = ();

    fn lane(&self, _workload: usize) {}

    async fn exchange(&self, _lane: &mut (), call: &Call<'_>, _reply: &mut Reply) -> Exchange {
        let number = self.calls.borrow().len() as u64;
        self.calls.borrow_mut().push(call.started_ns);
        let (delay_ns, outcome) = (self.script.borrow_mut())(number, call.started_ns);
        let deadline_ns = call.started_ns + call.step.timeout_ns;
        let answer_ns = call.started_ns + delay_ns;
        let mut x = Exchange::new(call.started_ns);
        let wait = self.rt.sleep_until(answer_ns.min(deadline_ns).min(call.cut_ns)).await;
        x.end_ns = self.rt.now();
        x.outcome = if wait == Wait::Cut || call.cut_ns < answer_ns.min(deadline_ns) {
            Outcome::Interrupted
        } else if deadline_ns < answer_ns {
            Outcome::TimeoutFirstByte
        } else {
            x.first_byte_ns = Some(x.end_ns);
            outcome
        };
        x.status = if x.first_byte_ns.is_some() { 200 } else { 0 };
        x
    }
}
