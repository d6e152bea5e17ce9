//! Closed load: one task for each virtual user.
use super::iteration::{Due, Visitor};
use super::worker::Worker;
use crate::job::{Closed, SessionSpan};
use crate::journey::Session;
use crate::rng::Rng;
use crate::schedule::Population;
use crate::transport::Transport;
use crate::transport::reactor::Wait;
use std::rc::Rc;

/// A user that found nobody to connect to tries again after this. Without it, closed load on a dead target would only
/// measure how fast this machine can fail.
const UNREACHABLE_PAUSE_NS: u64 = 10_000_000;

/// What a user has to know of its workload.
struct Terms {
    closed: Closed,
    /// Iterations that this user may do.
    quota: u64,
    /// Least time from the start of an iteration to the start of the next.
    least_gap_ns: u64,
    end_ns: u64,
    drain_ns: u64,
}

impl Terms {
    /// What a user that catches up has not begun when its time is over is less load than was asked for.
    fn settle<T: Transport>(&self, worker: &Worker<T>, workload: usize, scheduled_ns: u64, off_ns: u64) {
        let gap_ns = self.closed.mean_gap_ns();
        if self.closed.catch_up && gap_ns > 0 {
            worker.tallies[workload].owe(off_ns.saturating_sub(scheduled_ns), gap_ns);
        }
    }
}

/// Adds a task for each user of a workload that belongs to this thread. Gives how many iterations were asked for, if
/// the workload stops by their count.
pub fn spawn<T: Transport>(worker: &Rc<Worker<T>>, workload: usize, closed: &Closed) {
    let population = Population::new(closed);
    let users = population.users();
    for user in (0..users).filter(|user| user % worker.lanes as u64 == worker.lane as u64) {
        let quota = quota(closed, user, users);
        let intervals = population.intervals(user);
        if quota == 0 || intervals.is_empty() {
            continue;
        }
        let terms = Terms {
            closed: closed.clone(),
            quota,
            least_gap_ns: closed.max_rate_per_user_per_s.map_or(0, |rate| (1e9 / rate) as u64),
            end_ns: worker.start_ns + population.end_ns(),
            drain_ns: worker.plan.workloads[workload].drain_ns,
        };
        let worker2 = Rc::clone(worker);
        worker.begin();
        worker.rt.spawn(async move {
            live(&worker2, workload, user as u32, &terms, &intervals).await;
            worker2.end();
        });
    }
}

/// The iterations are shared out before the start: a fast user does not take those of a slow one.
pub(super) fn quota(closed: &Closed, user: u64, users: u64) -> u64 {
    match (closed.iterations, closed.iterations_per_user) {
        (Some(all), _) => all / users + u64::from(user < all % users),
        (None, Some(each)) => each,
        (None, None) => u64::MAX,
    }
}

async fn live<T: Transport>(
    worker: &Worker<T>,
    workload: usize,
    user: u32,
    terms: &Terms,
    intervals: &[(u64, u64)],
) {
    let seed = [worker.plan.job.seed, workload as u64, u64::from(user)];
    let mut visitor = Visitor {
        workload,
        user,
        iteration: 0,
        rng: Rng::from_parts(&seed),
        cut_ns: u64::MAX,
        session: Session::default(),
    };
    let mut lane = worker.transport.lane(workload);
    let mut free_ns = 0;
    for (on, off) in intervals {
        let (on_ns, off_ns) = (worker.start_ns + on, worker.start_ns + off);
        if worker.rt.sleep_until(on_ns).await == Wait::Cut {
            return;
        }
        // At the end of the schedule the drain ends everything after one timeout at the latest.
        let graceful_ns = terms.closed.graceful_us * 1000;
        let grace_ns = if off_ns == terms.end_ns { graceful_ns.min(terms.drain_ns) } else { graceful_ns };
        visitor.cut_ns = off_ns + grace_ns;
        worker.stats.users.add(1);
        let more = stay(worker, &mut visitor, &mut lane, terms, &mut free_ns, (on_ns, off_ns)).await;
        worker.stats.users.sub(1);
        if !more {
            return;
        }
    }
}

/// Iterates until the user retires; false if it will never come back.
async fn stay<T: Transport>(
    worker: &Worker<T>,
    visitor: &mut Visitor,
    lane: &mut T::Lane,
    terms: &Terms,
    free_ns: &mut u64,
    (on_ns, off_ns): (u64, u64),
) -> bool {
    let mut scheduled_ns = on_ns.max(*free_ns);
    // Later than scheduled only for a user that catches up.
    let mut begin_ns = scheduled_ns;
    loop {
        if worker.rt.sleep_until(begin_ns.min(off_ns)).await == Wait::Cut {
            return false;
        }
        if begin_ns >= off_ns {
            terms.settle(worker, visitor.workload, scheduled_ns, off_ns);
            *free_ns = begin_ns;
            return true;
        }
        worker.note_due(visitor.workload);
        // Who catches up was due while it was still busy: that time is its own, and no fault of the instrument.
        let queued_ns = (begin_ns > scheduled_ns).then_some(scheduled_ns);
        let end = worker.iterate(visitor, lane, Due { scheduled_ns, queued_ns }).await;
        visitor.iteration += 1;
        if u64::from(visitor.iteration) >= terms.quota {
            worker.note_count();
            return false;
        }
        if end.cut {
            // Cut off at the end of its grace: it may come back, as a new session.
            *lane = worker.transport.lane(visitor.workload);
            visitor.session.renew();
            terms.settle(worker, visitor.workload, scheduled_ns + terms.closed.mean_gap_ns(), off_ns);
            *free_ns = end.next_ns;
            return !worker.rt.is_cut();
        }
        if terms.closed.session == SessionSpan::Iteration {
            *lane = worker.transport.lane(visitor.workload);
        }
        let pacing_ns = terms.closed.pacing.map_or(0, |pause| pause.draw_ns(&mut visitor.rng));
        let gap_ns = pacing_ns.max(terms.least_gap_ns);
        let pause_ns = if end.unreachable { UNREACHABLE_PAUSE_NS } else { 0 };
        let free_ns = end.next_ns + pause_ns;
        scheduled_ns += gap_ns;
        begin_ns = free_ns.max(scheduled_ns);
        if !terms.closed.catch_up {
            scheduled_ns = begin_ns;
        }
    }
}
