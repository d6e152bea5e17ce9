//! One iteration of a journey, the same for closed users and open sessions.
use super::drafts::Draft;
use super::findings::advice;
use super::recorder::{Origin, Times};
use super::worker::Worker;
use crate::job::Load;
use crate::journey::{Act, Frame, Message, Session, StepPlan, Traced, Walk};
use crate::rng::Rng;
use crate::transport::reactor::Wait;
use crate::transport::{Exchange, Outcome, Transport};

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
    /// What it remembers.
    pub session: Session,
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
    /// The last request found nobody to connect to, or nothing was sent at all.
    pub unreachable: bool,
}

impl<T: Transport> Worker<T> {
    /// Carries an iteration out.
    pub async fn iterate(&self, visitor: &mut Visitor, lane: &mut T::Lane, due: Due) -> End {
        let plan = &self.plan.workloads[visitor.workload];
        // Until something takes time: an iteration that does nothing must not be repeated without end.
        let mut end = End { next_ns: due.scheduled_ns, cut: false, unreachable: true };
        let mut queued_ns = due.queued_ns;
        let mut walk = self.set_out(visitor);
        loop {
            let act = plan.program.next(&mut walk, &mut self.frame(visitor));
            let pause = match act {
                Act::End => return end,
                Act::Yield => {
                    self.rt.yield_now().await;
                    if self.rt.is_cut() || self.rt.now() >= visitor.cut_ns {
                        end.cut = true;
                        self.note_cut(visitor);
                        return end;
                    }
                    continue;
                }
                Act::Unclear(message) => {
                    self.not_rendered(visitor, "a condition", &message);
                    continue;
                }
                Act::Pause(pause) => {
                    if queued_ns.take().is_some() {
                        end.next_ns = self.rt.now().max(end.next_ns);
                    }
                    end.unreachable = false;
                    Some(pause)
                }
                Act::Request(index) => {
                    let step = &plan.steps[index + plan.rotation.turn(visitor.user, visitor.iteration)];
                    let outcome = self.step(visitor, lane, step, &mut end, queued_ns.take()).await;
                    if end.cut {
                        return end;
                    }
                    walk.note(outcome == Outcome::Answered);
                    step.think
                }
            };
            let Some(pause) = pause else { continue };
            end.next_ns += pause.draw_ns(&mut visitor.rng);
            if !plan.program.ends_at(&walk) && !self.think(end.next_ns, visitor.cut_ns).await {
                end.cut = true;
                self.note_cut(visitor);
                return end;
            }
        }
    }

    /// The step that an iteration begins with, for an arrival that is given up.
    pub fn first_step(&self, visitor: &mut Visitor) -> usize {
        let program = &self.plan.workloads[visitor.workload].program;
        let mut walk = self.set_out(visitor);
        loop {
            match program.next(&mut walk, &mut self.frame(visitor)) {
                Act::Request(index) => {
                    let rotation = self.plan.workloads[visitor.workload].rotation;
                    return index + rotation.turn(visitor.user, visitor.iteration);
                }
                Act::End | Act::Yield => return 0,
                Act::Pause(_) | Act::Unclear(_) => {}
            }
        }
    }

    /// Before the first step: a new session where each iteration is one, and the rows of its feeds.
    fn set_out(&self, visitor: &mut Visitor) -> Walk {
        let plan = &self.plan.workloads[visitor.workload];
        if plan.renews {
            visitor.session.renew();
        }
        let is_open = matches!(self.plan.job.workloads[visitor.workload].load, Load::Open(_));
        plan.rows.take(&mut visitor.session, visitor.user, is_open, &mut visitor.rng);
        Walk::new()
    }

    pub(super) fn frame<'a>(&'a self, visitor: &'a mut Visitor) -> Frame<'a> {
        Frame {
            templates: &self.plan.templates,
            scope: &self.plan.workloads[visitor.workload].scope,
            user: u64::from(visitor.user),
            iteration: u64::from(visitor.iteration),
            session: &mut visitor.session,
            rng: &mut visitor.rng,
        }
    }

    /// What a session had left is no row; an iteration of closed load is known to end with its user's grace.
    fn note_cut(&self, visitor: &Visitor) {
        if matches!(self.plan.job.workloads[visitor.workload].load, Load::Open(_)) {
            self.stats.sessions_cut.add(1);
        }
    }

    /// Sleeps between two steps; false if the visitor was cut off meanwhile.
    async fn think(&self, until_ns: u64, cut_ns: u64) -> bool {
        self.rt.sleep_until(until_ns.min(cut_ns)).await != Wait::Cut && until_ns < cut_ns
    }

    /// Carries a request out and keeps its row.
    async fn step(
        &self,
        visitor: &mut Visitor,
        lane: &mut T::Lane,
        step: &StepPlan,
        end: &mut End,
        queued_ns: Option<u64>,
    ) -> Outcome {
        let (x, times) = self.request(visitor, lane, step, end.next_ns, queued_ns).await;
        let origin = Origin {
            workload: visitor.workload,
            user: visitor.user,
            iteration: visitor.iteration,
            step: step.id,
            target: step.target,
        };
        self.recorder.keep(origin, times, &x);
        end.next_ns = x.end_ns;
        step.answers.forget(x.outcome, |slot, value| visitor.session.set(slot, value));
        if x.outcome != Outcome::CaptureMissing {
            // That follows from an earlier request, which has said whether somebody was there.
            end.unreachable = x.outcome.is_connect_failure() || x.outcome == Outcome::Template;
        }
        end.cut = x.outcome == Outcome::Interrupted;
        if matches!(x.outcome, Outcome::Template | Outcome::CaptureMissing) {
            // Nothing was waited for: many of these in a row must not keep others from their turn.
            self.rt.yield_now().await;
        }
        x.outcome
    }

    async fn request(
        &self,
        visitor: &mut Visitor,
        lane: &mut T::Lane,
        step: &StepPlan,
        scheduled_ns: u64,
        queued_ns: Option<u64>,
    ) -> (Exchange, Times) {
        let mut draft = self.drafts.take();
        let rendered = self.render(visitor, step, scheduled_ns, &mut draft);
        let started_ns = self.rt.now().max(scheduled_ns);
        let times = Times { scheduled_ns, picked_ns: queued_ns.unwrap_or(started_ns), started_ns };
        let mut x = Exchange::new(started_ns);
        if let Err(message) = rendered {
            let what = format!("step \"{}\"", self.plan.step_names[&step.id]);
            x.outcome = self.not_rendered(visitor, &what, &message);
            self.drafts.put(draft);
            return (x, times);
        }
        x = self.converse(visitor, lane, step, &mut draft, (step.target, started_ns)).await;
        self.drafts.put(draft);
        (x, times)
    }

    /// Makes what of a request is not always the same.
    fn render(
        &self,
        visitor: &mut Visitor,
        step: &StepPlan,
        scheduled_ns: u64,
        draft: &mut Draft,
    ) -> Result<(), String> {
        if let Message::Template(template) = &step.message {
            template.render(&mut self.frame(visitor), &mut draft.outgoing)?;
        }
        if let Some(trace) = &step.trace {
            let of = Traced {
                worker: self.lane as u64,
                user: u64::from(visitor.user),
                iteration: u64::from(visitor.iteration),
                scheduled_us: self.recorder.run_us(scheduled_ns),
            };
            trace.push(of, &mut draft.extra);
        }
        Ok(())
    }

    /// Says why a text could not be rendered: for want of what an answer should have given, which is a result of the
    /// system, or because the text itself is wrong.
    pub(super) fn not_rendered(&self, visitor: &mut Visitor, what: &str, message: &str) -> Outcome {
        let (outcome, name, advice) = if visitor.session.take_lack() {
            (Outcome::CaptureMissing, "capture_missing", advice::CAPTURE)
        } else {
            (Outcome::Template, "template_failed", advice::TEMPLATE)
        };
        self.recorder.find(name, self.rt.recent(), 1.0, format!("{what}: {message}"), advice);
        outcome
    }
}
