//! One iteration of a journey, the same for closed users and open sessions.
use super::findings::advice;
use super::recorder::{Origin, Times};
use super::worker::Worker;
use crate::journey::{Message, Rendered, StepPlan, Variables};
use crate::rng::Rng;
use crate::transport::reactor::Wait;
use crate::transport::{Call, Exchange, Outcome, Transport};

/// A virtual user, or the session of an arrival.
pub struct Visitor {
    /// Index of the workload.
    pub workload: usize,
    /// Number of the user or arrival.
    pub user: u32,
    /// Iteration of the user.
    pub iteration: u32,
    /// Its own draws.
    pub rng: Rng,
    /// When it is cut off.
    pub cut_ns: u64,
    /// Buffers for templates.
    pub rendered: Rendered,
}

/// The first request of an iteration.
#[derive(Clone, Copy)]
pub struct Due {
    /// When it was due.
    pub scheduled_ns: u64,
    /// When it was picked up, if it had to wait for a slot afterwards.
    pub queued_ns: Option<u64>,
}

/// How an iteration ended.
#[derive(Clone, Copy)]
pub struct End {
    /// End of the last request, and the pause after it: when the next iteration may begin.
    pub next_ns: u64,
    /// It was cut off.
    pub cut: bool,
    /// The last request found nobody to connect to.
    pub unreachable: bool,
}

impl<T: Transport> Worker<T> {
    /// Carries an iteration out.
    pub async fn iterate(&self, visitor: &mut Visitor, lane: &mut T::Lane, due: Due) -> End {
        let plan = &self.plan.workloads[visitor.workload];
        let mut end = End { next_ns: due.scheduled_ns, cut: false, unreachable: false };
        let mut queued_ns = due.queued_ns;
        let mut at = 0;
        while let Some((index, next)) = plan.program.next(at, &mut visitor.rng) {
            at = next;
            let step = &plan.steps[index];
            let (x, times) = self.request(visitor, lane, step, end.next_ns, queued_ns.take()).await;
            let origin = Origin {
                workload: visitor.workload,
                user: visitor.user,
                iteration: visitor.iteration,
                step: step.id,
                target: step.target,
            };
            self.recorder.keep(origin, times, &x);
            end.next_ns = x.end_ns;
            end.unreachable = x.outcome.is_connect_failure();
            end.cut = x.outcome == Outcome::Interrupted;
            if end.cut {
                return end;
            }
            let Some(pause) = step.think else { continue };
            end.next_ns += pause.draw_ns(&mut visitor.rng);
            if !plan.program.ends_at(at) && !self.think(end.next_ns, visitor.cut_ns).await {
                end.cut = true;
                return end;
            }
        }
        end
    }

    /// Sleeps between two steps; false if the visitor was cut off meanwhile.
    async fn think(&self, until_ns: u64, cut_ns: u64) -> bool {
        self.rt.sleep_until(until_ns.min(cut_ns)).await != Wait::Cut && until_ns < cut_ns
    }

    async fn request(
        &self,
        visitor: &mut Visitor,
        lane: &mut T::Lane,
        step: &StepPlan,
        scheduled_ns: u64,
        queued_ns: Option<u64>,
    ) -> (Exchange, Times) {
        let rendered = self.render(visitor, step);
        let started_ns = self.rt.now().max(scheduled_ns);
        let times = Times { scheduled_ns, picked_ns: queued_ns.unwrap_or(started_ns), started_ns };
        if let Err(message) = rendered {
            self.recorder.find("template_failed", started_ns, 1.0, message, advice::TEMPLATE);
            return (Exchange::new(started_ns), times);
        }
        self.stats.in_flight.add(1);
        if self.stats.in_flight.get() > self.stats.in_flight_max.get() {
            self.stats.in_flight_max.set(self.stats.in_flight.get());
        }
        let rendered = matches!(step.message, Message::Template(_)).then_some(&visitor.rendered);
        let call = Call { step, rendered, started_ns, cut_ns: visitor.cut_ns };
        let x = self.transport.exchange(lane, &call).await;
        self.stats.in_flight.sub(1);
        (x, times)
    }

    fn render(&self, visitor: &mut Visitor, step: &StepPlan) -> Result<(), String> {
        let Message::Template(draft) = &step.message else { return Ok(()) };
        let user = u64::from(visitor.user);
        let variables = Variables {
            user,
            iteration: u64::from(visitor.iteration),
            arrival: Some(user),
            run_id: &self.plan.job.run_id,
        };
        draft.render(&self.plan.templates, &variables, &mut visitor.rng, &mut visitor.rendered)
    }
}
