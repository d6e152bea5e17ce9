//! Open load: one task that follows the schedule, and one for each session in flight.
use super::findings::advice;
use super::iteration::{Due, Visitor};
use super::recorder::{Origin, Times};
use super::worker::Worker;
use crate::job::{Open, WhenFull};
use crate::journey::Session;
use crate::rng::Rng;
use crate::schedule::{Arrival, ArrivalPlan};
use crate::transport::reactor::{TaskId, Wait};
use crate::transport::{Exchange, Transport};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// Arrivals in a row, while the schedule is behind, before answers get their turn.
const BURST: u32 = 16;
/// The schedule is behind when an arrival is later than this.
const BEHIND_NS: u64 = 200_000;

/// An arrival that is due.
#[derive(Clone, Copy)]
struct Waiting {
    arrival: Arrival,
    scheduled_ns: u64,
    /// When it was put into the queue; none if a slot was free.
    queued_ns: Option<u64>,
}

/// What the schedule and the sessions of a workload share.
struct Gate {
    workload: usize,
    when_full: WhenFull,
    bound: usize,
    timeout_ns: u64,
    drain_end_ns: u64,
    in_flight: Cell<usize>,
    queue: RefCell<VecDeque<Waiting>>,
    /// Tasks of sessions without an arrival; the last to become idle is the next to work.
    idle: RefCell<Vec<Rc<Seat>>>,
    driver: Cell<TaskId>,
    bound_met: Cell<bool>,
}

/// A task for sessions, one after another.
struct Seat {
    task: Cell<TaskId>,
    given: Cell<Option<Waiting>>,
}

/// Adds the task that follows the schedule.
pub fn spawn<T: Transport>(worker: &Rc<Worker<T>>, workload: usize, open: &Open) {
    let schedule = ArrivalPlan::new(open, worker.plan.job.seed, workload as u64);
    let (lane, lanes) = (worker.lane, worker.lanes);
    let gate = Rc::new(Gate {
        workload,
        when_full: open.when_full,
        bound: worker.plan.job.session_bound(workload, lane),
        timeout_ns: worker.plan.job.workloads[workload].timeout_us * 1000,
        drain_end_ns: worker.start_ns + schedule.end_ns() + worker.plan.workloads[workload].drain_ns,
        in_flight: Cell::new(0),
        queue: RefCell::default(),
        idle: RefCell::default(),
        driver: Cell::new(0),
        bound_met: Cell::new(false),
    });
    let worker2 = Rc::clone(worker);
    let by_count = open.max_arrivals.is_some_and(|most| most <= schedule.expected_total());
    worker.begin();
    let shard = schedule.shard(lane as u64, lanes as u64);
    worker.rt.spawn(async move {
        gate.driver.set(worker2.rt.current());
        gate.follow(&worker2, shard).await;
        gate.drain(&worker2).await;
        if by_count && !worker2.rt.is_cut() {
            worker2.note_count();
        }
        worker2.end();
    });
}

impl Gate {
    async fn follow<T: Transport>(
        self: &Rc<Self>,
        worker: &Rc<Worker<T>>,
        schedule: impl Iterator<Item = Arrival>,
    ) {
        let mut schedule = schedule.peekable();
        let mut in_a_row = 0_u32;
        while let Some(arrival) = schedule.peek().copied() {
            let scheduled_ns = worker.start_ns + arrival.offset_ns;
            // Queued arrivals may run out of time before the next one is due.
            while worker.rt.recent() < scheduled_ns {
                let wake_ns = self.next_expiry().min(scheduled_ns);
                if worker.rt.sleep_until(wake_ns).await == Wait::Cut {
                    return self.abandon(worker, schedule);
                }
                self.expire(worker);
            }
            schedule.next();
            worker.note_due(self.workload);
            self.admit(worker, Waiting { arrival, scheduled_ns, queued_ns: None });
            // The session goes first: in a burst each is sent off before the next one is looked at. But a schedule
            // that cannot be kept up with must not keep all answers waiting.
            in_a_row = if worker.rt.recent() < scheduled_ns + BEHIND_NS { 0 } else { in_a_row + 1 };
            if in_a_row % BURST == BURST - 1 {
                worker.rt.yield_now().await;
            } else {
                worker.rt.yield_to_first().await;
            }
            if worker.rt.is_cut() {
                return self.abandon(worker, schedule);
            }
        }
    }

    /// The run was cut: what was due before is kept as not sent.
    fn abandon<T: Transport>(&self, worker: &Worker<T>, schedule: impl Iterator<Item = Arrival>) {
        let now_ns = worker.rt.now();
        for arrival in schedule.take_while(|a| worker.start_ns + a.offset_ns <= now_ns) {
            worker.note_due(self.workload);
            let scheduled_ns = worker.start_ns + arrival.offset_ns;
            self.give_up(worker, Waiting { arrival, scheduled_ns, queued_ns: None });
        }
    }

    fn admit<T: Transport>(self: &Rc<Self>, worker: &Rc<Worker<T>>, mut waiting: Waiting) {
        if self.in_flight.get() < self.bound {
            return self.start(worker, waiting);
        }
        let now_ns = worker.rt.now();
        if !self.bound_met.replace(true) {
            let message = format!("{} sessions in flight on one thread: the bound was reached", self.bound);
            worker.recorder.find(
                "in_flight_bound_reached",
                now_ns,
                self.bound as f64,
                message,
                advice::BOUND,
            );
        }
        if self.when_full == WhenFull::Drop {
            worker.stats.dropped.add(1);
            return self.give_up(worker, waiting);
        }
        waiting.queued_ns = Some(now_ns);
        self.queue.borrow_mut().push_back(waiting);
        worker.stats.queued.add(1);
    }

    fn start<T: Transport>(self: &Rc<Self>, worker: &Rc<Worker<T>>, waiting: Waiting) {
        self.in_flight.set(self.in_flight.get() + 1);
        let idle = self.idle.borrow_mut().pop();
        if let Some(seat) = idle {
            seat.given.set(Some(waiting));
            return worker.rt.wake_first(seat.task.get());
        }
        let seat = Rc::new(Seat { task: Cell::new(0), given: Cell::new(Some(waiting)) });
        let (gate, worker2, seat2) = (Rc::clone(self), Rc::clone(worker), Rc::clone(&seat));
        seat.task.set(worker.rt.spawn_first(async move { gate.serve(&worker2, &seat2).await }));
    }

    /// The life of a seat.
    async fn serve<T: Transport>(self: Rc<Self>, worker: &Rc<Worker<T>>, seat: &Rc<Seat>) {
        let mut visitor = self.visitor();
        loop {
            let Some(waiting) = seat.given.take() else {
                if worker.rt.until(u64::MAX, || seat.has_work()).await == Wait::Cut {
                    return;
                }
                continue;
            };
            visitor.user = waiting.arrival.index as u32;
            visitor.rng = self.draws(worker, waiting.arrival);
            worker.stats.users.add(1);
            let due = Due { scheduled_ns: waiting.scheduled_ns, queued_ns: waiting.queued_ns };
            // A session's own connections end with it.
            let mut lane = worker.transport.lane(self.workload);
            worker.iterate(&mut visitor, &mut lane, due).await;
            worker.stats.users.sub(1);
            if !self.pass_on(worker, seat) {
                self.in_flight.set(self.in_flight.get() - 1);
                self.idle.borrow_mut().push(Rc::clone(seat));
                if self.in_flight.get() == 0 {
                    worker.rt.wake(self.driver.get());
                }
            }
        }
    }

    fn visitor(&self) -> Visitor {
        Visitor {
            workload: self.workload,
            user: 0,
            iteration: 0,
            rng: Rng::from_parts(&[]),
            cut_ns: self.drain_end_ns,
            session: Session::default(),
        }
    }

    /// The draws of an arrival, the same whether it is served or given up.
    fn draws<T: Transport>(&self, worker: &Worker<T>, arrival: Arrival) -> Rng {
        Rng::from_parts(&[worker.plan.job.seed, self.workload as u64, arrival.index])
    }

    /// Gives the seat the next arrival of the queue.
    fn pass_on<T: Transport>(&self, worker: &Worker<T>, seat: &Seat) -> bool {
        if self.queue.borrow().is_empty() || worker.rt.is_cut() {
            return false;
        }
        self.expire(worker);
        let next = self.queue.borrow_mut().pop_front();
        if next.is_some() {
            worker.stats.queued.sub(1);
        }
        seat.given.set(next);
        next.is_some()
    }

    fn next_expiry(&self) -> u64 {
        let queue = self.queue.borrow();
        queue.front().and_then(|w| w.queued_ns).map_or(u64::MAX, |ns| ns + self.timeout_ns)
    }

    /// Gives up what has waited as long as a request may take.
    fn expire<T: Transport>(&self, worker: &Worker<T>) {
        while self.next_expiry() <= worker.rt.recent() {
            let Some(waiting) = self.queue.borrow_mut().pop_front() else { return };
            worker.stats.queued.sub(1);
            self.give_up(worker, waiting);
        }
    }

    /// A row for an arrival that was never started.
    fn give_up<T: Transport>(&self, worker: &Worker<T>, waiting: Waiting) {
        let now_ns = worker.rt.now();
        // The step that it would have begun with.
        let mut visitor = self.visitor();
        visitor.user = waiting.arrival.index as u32;
        visitor.rng = self.draws(worker, waiting.arrival);
        let first = worker.first_step(&mut visitor);
        let step = &worker.plan.workloads[self.workload].steps[first];
        let origin = Origin {
            workload: self.workload,
            user: waiting.arrival.index as u32,
            iteration: 0,
            step: step.id,
            target: step.target,
        };
        let picked_ns = waiting.queued_ns.unwrap_or(now_ns);
        let times = Times { scheduled_ns: waiting.scheduled_ns, picked_ns, started_ns: now_ns };
        worker.recorder.keep(origin, times, &Exchange::new(now_ns));
    }

    /// After the last arrival: until nothing is in flight, one timeout at most.
    async fn drain<T: Transport>(&self, worker: &Worker<T>) {
        let rt = &worker.rt;
        while self.in_flight.get() > 0 && !rt.is_cut() {
            let wake_ns = self.next_expiry().min(self.drain_end_ns);
            let wait = rt.until(wake_ns, || self.in_flight.get() == 0).await;
            self.expire(worker);
            if wait == Wait::Expired && rt.recent() >= self.drain_end_ns {
                break;
            }
        }
        while let Some(waiting) = self.queue.borrow_mut().pop_front() {
            worker.stats.queued.sub(1);
            self.give_up(worker, waiting);
        }
        // All that is still in flight ends now, at its own bound or because of the cut.
        while self.in_flight.get() > 0 {
            if rt.is_cut() {
                // Every wait ends at once now.
                rt.yield_now().await;
            } else {
                rt.until(u64::MAX, || self.in_flight.get() == 0).await;
            }
        }
    }
}

impl Seat {
    fn has_work(&self) -> bool {
        let given = self.given.take();
        self.given.set(given);
        given.is_some()
    }
}
