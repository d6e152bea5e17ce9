//! A request and what follows from its answer: redirects, cookies, captures, and how it is judged.
use super::drafts::Draft;
use super::findings::advice;
use super::iteration::Visitor;
use super::worker::Worker;
use crate::journey::answers::redirect::{self, Hop};
use crate::journey::answers::{Place, cold};
use crate::journey::{Fields, Message, Outgoing, Session, StepPlan};
use crate::transport::{Breach, Call, Exchange, Outcome, Reply, Transport};
use std::time::{SystemTime, UNIX_EPOCH};

/// One hop of a request that may be redirected.
struct Leg {
    target: usize,
    /// What is sent; none for what the step sends.
    outgoing: Option<Outgoing>,
}

impl<T: Transport> Worker<T> {
    /// Sends a request to a target, follows where it is redirected to, and judges the last answer.
    pub(super) async fn converse(
        &self,
        visitor: &mut Visitor,
        lane: &mut T::Lane,
        step: &StepPlan,
        draft: &mut Draft,
        (target, started_ns): (usize, u64),
    ) -> Exchange {
        let mut reply = if step.want.any() { self.replies.take() } else { Reply::default() };
        let mut leg = Leg { target, outgoing: None };
        self.stats.enter();
        let mut x = self.leg(visitor, lane, step, draft, &leg, (started_ns, &mut reply)).await;
        while x.outcome == Outcome::Answered && step.answers.redirects > 0 {
            match self.redirected(visitor, step, draft, &leg, (&x, &reply)) {
                Ok(None) => break,
                Ok(Some(next)) => leg = next,
                Err(outcome) => {
                    x.outcome = outcome;
                    break;
                }
            }
            let next = self.leg(visitor, lane, step, draft, &leg, (started_ns, &mut reply)).await;
            x = together(&x, &next);
        }
        self.stats.in_flight.sub(1);
        if x.outcome == Outcome::Answered {
            self.judge(visitor, step, &reply, &mut x, started_ns);
        }
        if step.want.any() {
            self.replies.put(reply);
        }
        x
    }

    /// One request and its answer, with the cookies of the session.
    async fn leg(
        &self,
        visitor: &mut Visitor,
        lane: &mut T::Lane,
        step: &StepPlan,
        draft: &mut Draft,
        leg: &Leg,
        (started_ns, reply): (u64, &mut Reply),
    ) -> Exchange {
        let Draft { outgoing: rendered, extra } = draft;
        let others = extra.len();
        let (mut outgoing, mut is_static) = match (&leg.outgoing, &step.message) {
            (Some(outgoing), _) => (outgoing, false),
            (None, Message::Static(outgoing)) => (outgoing, true),
            (None, Message::Template(_)) => (&*rendered, false),
        };
        let place =
            Place::new(self.plan.places.site(leg.target), self.prefix(leg.target, outgoing), &outgoing.path);
        if !visitor.session.jar.is_empty() {
            extra.push_with(b"cookie", |bytes| visitor.session.jar.write(place, started_ns, bytes));
        }
        let cookies = extra.iter().nth(others).map_or(&b""[..], |(_, cookies)| cookies);
        let merged =
            (step.has_cookie && !cookies.is_empty()).then(|| with_cookies(outgoing, cookies)).flatten();
        if cookies.is_empty() || merged.is_some() {
            extra.truncate(others);
        }
        if let Some(merged) = &merged {
            (outgoing, is_static) = (merged, false);
        }
        let (target, cut_ns) = (leg.target, visitor.cut_ns);
        let call = Call { step, outgoing, is_static, extra, target, started_ns, cut_ns };
        let x = self.transport.exchange(lane, &call, reply).await;
        extra.truncate(others);
        if step.want.cookies && x.status != 0 {
            visitor.session.jar.take_in(&reply.fields, place, x.end_ns, unix_s);
        }
        x
    }

    /// What stands before the path of a request.
    fn prefix(&self, target: usize, outgoing: &Outgoing) -> &str {
        if outgoing.is_whole { "" } else { self.plan.places.prefix(target) }
    }

    /// Where an answer redirects to, if it does.
    fn redirected(
        &self,
        visitor: &mut Visitor,
        step: &StepPlan,
        draft: &Draft,
        leg: &Leg,
        (x, reply): (&Exchange, &Reply),
    ) -> Result<Option<Leg>, Outcome> {
        let Some(location) = redirect::location(x.status, &reply.fields) else { return Ok(None) };
        if x.redirects >= step.answers.redirects {
            return Err(Outcome::Redirect);
        }
        let request = match (&leg.outgoing, &step.message) {
            (Some(outgoing), _) | (None, Message::Static(outgoing)) => outgoing,
            (None, Message::Template(_)) => &draft.outgoing,
        };
        let path = format!("{}{}", self.prefix(leg.target, request), request.path);
        let hop = self.plan.places.locate(leg.target, &path, location).ok_or(Outcome::Redirect)?;
        let outgoing = self.follow(visitor, request, x.status, leg.target, &hop)?;
        Ok(Some(Leg { target: hop.target, outgoing: Some(outgoing) }))
    }

    /// What is sent to where a redirect leads: another target gets its own headers instead of this one's.
    fn follow(
        &self,
        visitor: &mut Visitor,
        request: &Outgoing,
        status: u16,
        from: usize,
        hop: &Hop,
    ) -> Result<Outgoing, Outcome> {
        if hop.target == from {
            return Ok(redirect::follow(request, status, hop, |_| false));
        }
        let headers = &self.plan.workloads[visitor.workload].target_headers;
        let is_private = |name: &[u8]| {
            let is_own = |(own, _): &(String, _)| name.eq_ignore_ascii_case(own.as_bytes());
            redirect::is_credential(name) || headers[from].iter().any(is_own)
        };
        let mut outgoing = redirect::follow(request, status, hop, is_private);
        for (name, line) in &headers[hop.target] {
            if outgoing.headers.get(name.as_bytes()).is_some() {
                continue;
            }
            let push = |text: &str| outgoing.headers.push(name.as_bytes(), text.as_bytes());
            let rendered = line.with_text(&mut self.frame(visitor), push);
            if let Err(message) = rendered {
                let what = format!("header \"{name}\" of a redirect's target");
                self.not_rendered(visitor, &what, &message);
                return Err(Outcome::Redirect);
            }
        }
        Ok(outgoing)
    }

    fn judge(
        &self,
        visitor: &mut Visitor,
        step: &StepPlan,
        reply: &Reply,
        x: &mut Exchange,
        started_ns: u64,
    ) {
        let mut work = self.workspace.borrow_mut();
        let most = self.plan.job.limits.max_body_bytes;
        if let Some(signs) = &self.plan.job.workloads[visitor.workload].cold {
            let total_us = x.end_ns.saturating_sub(started_ns) / 1000;
            x.cold = cold::is_cold(signs, reply, total_us, most, &mut work.buffers);
        }
        let Visitor { session, rng, .. } = visitor;
        let keep = |slot, value| Session::set(session, slot, value);
        x.outcome = step.answers.judge((x.status, reply), most, &mut work, rng, keep);
        if x.outcome == Outcome::Protocol {
            // Framing was right: it can only be what the body is coded as.
            let message = format!("step \"{}\": {}", self.plan.step_names[&step.id], Breach::Content);
            self.recorder.find("protocol_failed", x.end_ns, 1.0, message, advice::PROTOCOL);
        }
    }
}

/// One row for a request and the one that its answer redirected to: bytes and time of both, the phases of the first.
fn together(first: &Exchange, next: &Exchange) -> Exchange {
    Exchange {
        outcome: next.outcome,
        status: next.status,
        // What was never sent has no phases.
        first_byte_ns: first.first_byte_ns.filter(|_| !next.outcome.is_unsent()),
        end_ns: next.end_ns,
        bytes_out: first.bytes_out + next.bytes_out,
        bytes_in: first.bytes_in + next.bytes_in,
        instance: next.instance,
        attempt: first.attempt.max(next.attempt),
        redirects: first.redirects + 1,
        ..*first
    }
}

/// A step's own cookies, if it has any, and those of the jar, in the one header that there may be.
fn with_cookies(request: &Outgoing, cookies: &[u8]) -> Option<Outgoing> {
    request.headers.get(b"cookie")?;
    let mut headers = Fields::default();
    for (name, value) in request.headers.iter() {
        if name.eq_ignore_ascii_case(b"cookie") {
            headers.push(name, &[value, b"; ", cookies].concat());
        } else {
            headers.push(name, value);
        }
    }
    Some(Outgoing { headers, ..request.clone() })
}

/// The time of day.
fn unix_s() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}
