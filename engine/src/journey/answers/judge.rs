//! All that is looked at in the answers to one step, compiled.
use super::capture::{Capture, View};
use super::check::{Checks, Compiling};
use super::decode::Buffers;
use super::json::{Found, Hits, JsonPaths};
use crate::job::{Problem, Request, StatusSet};
use crate::rng::Rng;
use crate::transport::{Outcome, OutcomeNames, Reply, Want};
use minijinja::value::Value;

/// What is expected of the answers to a step, and what is taken out of them.
#[derive(Default)]
pub struct Answers {
    status: StatusSet,
    checks: Checks,
    captures: Vec<Capture>,
    paths: JsonPaths,
    /// If the status of a gRPC call is not 0.
    grpc: Option<Outcome>,
    /// Redirects that are followed at most.
    pub redirects: u8,
}

/// Buffers of a thread, kept from one answer to the next.
#[derive(Default)]
pub struct Workspace {
    /// For what was compressed.
    pub buffers: Buffers,
    hits: Hits,
}

impl Answers {
    /// Compiles what a request says of its answers; `slot` tells where the session keeps a variable.
    pub fn new(
        request: &Request,
        outcomes: &mut OutcomeNames,
        slot: impl Fn(&str) -> Option<usize>,
    ) -> Result<Self, Vec<Problem>> {
        let (mut paths, mut problems) = (JsonPaths::default(), Vec::new());
        let mut with = Compiling { paths: &mut paths, outcomes, problems: &mut problems };
        let checks = Checks::new(&request.expect, &request.at, &mut with);
        let captures = request.capture.iter().filter_map(|capture| {
            // A name without a slot was refused as a name.
            let slot = slot(&capture.name)?;
            Capture::new(capture, slot, &mut with)
        });
        let captures = captures.collect();
        let grpc =
            request.grpc.then(|| with.outcome("check:grpc", &format!("{}.grpc", request.at))).flatten();
        let (status, redirects) = (request.expect.status, request.redirects);
        if problems.is_empty() {
            Ok(Self { status, checks, captures, paths, grpc, redirects })
        } else {
            Err(problems)
        }
    }

    /// What has to be kept of the answers. Whoever looks at a body must know how it was compressed.
    pub fn want(&self, cookies: bool) -> Want {
        let body = self.checks.want_body() || self.captures.iter().any(Capture::wants_body);
        let fields = body
            || self.redirects > 0
            || self.grpc.is_some()
            || self.checks.want_fields()
            || self.captures.iter().any(Capture::wants_fields);
        Want { fields, cookies, body }
    }

    /// What becomes of a request whose answer is complete. What captures find goes to `keep`, with its slot; they are
    /// taken only from an answer of which everything holds that is expected.
    pub fn judge(
        &self,
        (status, reply): (u16, &Reply),
        max_body_bytes: u64,
        work: &mut Workspace,
        rng: &mut Rng,
        mut keep: impl FnMut(usize, Value),
    ) -> Outcome {
        if !self.status.contains(status) {
            return Outcome::CheckStatus;
        }
        let Reply { fields, body } = reply;
        if let Some(outcome) = self.grpc
            // Trailers follow the head in the fields, and what they say counts; a head alone may say it too.
            && fields.all(b"grpc-status").last() != Some(b"0")
        {
            return outcome;
        }
        let body = match work.buffers.decode(fields, body, max_body_bytes) {
            Ok(body) => body,
            Err(outcome) => return outcome,
        };
        let found =
            if self.paths.is_empty() { Found::Nothing } else { self.paths.find(body, &mut work.hits) };
        if let Err(outcome) = self.checks.judge(fields, body, &found) {
            return outcome;
        }
        let view = View { fields, body, found: &found };
        let mut outcome = Outcome::Answered;
        for capture in &self.captures {
            if let Err(missing) = capture.take(view, rng, &mut keep)
                && outcome == Outcome::Answered
            {
                outcome = missing;
            }
        }
        outcome
    }

    /// After a request from whose answer nothing was captured, since it was not sent, failed, or was not as expected:
    /// what it would have captured is not known any more. The same as a capture that finds nothing.
    pub fn forget(&self, outcome: Outcome, mut keep: impl FnMut(usize, Value)) {
        let is_taken = outcome == Outcome::Answered || self.captures.iter().any(|c| c.is_missing(outcome));
        if !is_taken {
            self.captures.iter().for_each(|capture| capture.forget(&mut keep));
        }
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
