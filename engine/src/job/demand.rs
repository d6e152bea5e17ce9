//! How many connections the workloads of a job may hold at once, and so how many sessions there is room for.
//!
//! A user that keeps its connections has one to each target that it goes to, or to each instance of them where every request
//! names its instance. With the other policies a session has one at a time: what it leaves in a pool makes room for whoever
//! needs it.
use super::{Closed, ConnectionPolicy, Job, Load, Problem, SessionSpan, Spread, Workload};
use std::collections::BTreeSet;

/// Of so many, those that belong to a lane.
pub fn share(all: u64, lane: usize, lanes: usize) -> u64 {
    let (lane, lanes) = (lane as u64, lanes as u64);
    all / lanes + u64::from(lane < all % lanes)
}

/// Whether all users and all sessions with a bound of their own have their connections.
pub(super) fn check(job: &Job) -> Vec<Problem> {
    let lanes = job.lanes();
    // The least limit of which each lane's share is enough for that lane.
    let least = |lane| match needed(job, lane) {
        0 => 0,
        need => (need - 1) * lanes as u64 + lane as u64 + 1,
    };
    let need = (0..lanes).map(least).max().unwrap_or(0);
    let limit = job.limits.max_connections;
    if need <= limit {
        return Vec::new();
    }
    let parts: Vec<_> = job.workloads.iter().map(|w| words(job, w)).collect();
    let message = format!(
        "up to {need} connections at once ({}); limits.max_connections allows {limit}",
        parts.join("; ")
    );
    vec![Problem { path: "$.workloads".into(), message }]
}

/// Sessions of an open workload that a lane may have in flight.
pub(super) fn session_bound(job: &Job, workload: &Workload, lane: usize) -> u64 {
    let most = match &workload.load {
        Load::Open(open) => open.max_in_flight,
        Load::Closed(closed) => Some(closed.peak_users()),
    };
    let bound = most.map_or_else(
        || {
            // Those without a bound have what the others leave: at least one, as was checked with the job.
            let each = per_session(job, workload);
            let others = needed(job, lane) - each;
            share(job.limits.max_connections, lane, job.lanes()).saturating_sub(others) / each
        },
        |all| share(all, lane, job.lanes()),
    );
    bound.max(1)
}

/// Connections that a lane has to have room for; of open load without a bound, those of one session.
fn needed(job: &Job, lane: usize) -> u64 {
    let sessions = |workload: &Workload| match &workload.load {
        Load::Closed(closed) => share(closed.peak_users(), lane, job.lanes()),
        Load::Open(open) => open.max_in_flight.map_or(1, |all| share(all, lane, job.lanes())),
    };
    job.workloads.iter().map(|workload| sessions(workload) * per_session(job, workload)).sum()
}

/// Connections that a user, or the session of an arrival, may hold at once.
fn per_session(job: &Job, workload: &Workload) -> u64 {
    if workload.connections.policy != ConnectionPolicy::PerUser {
        return 1;
    }
    let held = |target: usize| match job.spread {
        Spread::PerConnectionRandom => 1,
        Spread::PerRequestRoundRobin | Spread::LeastOutstanding => job.targets[target].instances.len() as u64,
    };
    let (mut targets, mut redirected) = (BTreeSet::new(), false);
    workload.journey.each_request(&mut |request| {
        targets.insert(request.target);
        redirected |= request.redirects > 0;
    });
    let keeps = matches!(workload.load, Load::Closed(Closed { session: SessionSpan::User, .. }));
    if redirected {
        // A redirect may lead to any target of the job.
        (0..job.targets.len()).map(held).sum()
    } else if workload.rotate.is_empty() {
        targets.into_iter().map(held).sum()
    } else {
        let targets: BTreeSet<_> =
            workload.rotate.iter().copied().map(|target| (target, held(target))).collect();
        let each = targets.iter().map(|(_, held)| *held);
        // All requests of an iteration go to one of them.
        if keeps { each.sum() } else { each.max().unwrap_or(1) }
    }
}

fn words(job: &Job, workload: &Workload) -> String {
    let each = per_session(job, workload);
    let name = &workload.name;
    match &workload.load {
        Load::Closed(closed) => format!("\"{name}\": {} users with {each} each", closed.peak_users()),
        Load::Open(open) => {
            let sessions = open.max_in_flight.unwrap_or(job.lanes() as u64);
            format!("\"{name}\": {sessions} arrivals in flight with {each} each")
        }
    }
}

#[cfg(test)]
#[path = "demand_tests.rs"]
mod tests;
