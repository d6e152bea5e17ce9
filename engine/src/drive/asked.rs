//! Whether as much was begun as was asked for. Less load than that is never silent.
use super::findings::{Finding, advice};
use super::user;
use crate::job::{Closed, Job, Load, OwnPart};
use crate::schedule::Population;
use std::cell::Cell;

/// What a thread counts for one workload.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Iterations begun, or arrivals that were due.
    pub begun: Cell<u64>,
    /// Iterations that users who catch up still owed when their time was over.
    pub owed: Cell<u64>,
}

impl Tally {
    /// One more has begun.
    pub fn begin(&self) {
        self.begun.set(self.begun.get() + 1);
    }

    /// So much of its schedule a user had still before it, at so much for an iteration. Less than one is no debt: at the
    /// end of the schedule anybody may be busy.
    pub fn owe(&self, left_ns: u64, gap_ns: u64) {
        self.owed.set(self.owed.get() + left_ns / gap_ns.max(1));
    }

    /// Everything from another.
    pub fn add(&self, other: &Self) {
        self.begun.set(self.begun.get() + other.begun.get());
        self.owed.set(self.owed.get() + other.owed.get());
    }
}

/// What is to be said where the schedule was over before all that was asked for had begun: of each workload what was
/// asked for and done. Threads have counted by workload.
pub fn finding<'a>(
    job: &Job,
    threads: &(impl Iterator<Item = &'a [Tally]> + Clone),
    t_us: i64,
) -> Option<Finding> {
    let (mut missing, mut said) = (0, Vec::new());
    for (index, workload) in job.workloads.iter().enumerate() {
        let tally = Tally::default();
        threads.clone().filter_map(|thread| thread.get(index)).for_each(|thread| tally.add(thread));
        for Short { done, asked, what } in shortfalls(&workload.load, &tally, job.own_part()) {
            missing += asked - done;
            said.push(format!("{}: {done} of {asked} {what}", workload.name));
        }
    }
    let message = format!("less was done than was asked for; {}", said.join("; "));
    let (name, value) = ("count_not_reached", missing as f64);
    (!said.is_empty()).then_some(Finding { name, t_us, value, message, advice: advice::COUNT })
}

/// Less than was asked for.
struct Short {
    done: u64,
    asked: u64,
    what: &'static str,
}

fn shortfalls(load: &Load, tally: &Tally, part: OwnPart) -> Vec<Short> {
    let begun = tally.begun.get();
    let short = |done, asked: u64, what| (done < asked).then_some(Short { done, asked, what });
    match load {
        Load::Open(open) => open
            .max_arrivals
            .and_then(|asked| short(begun, part.share(asked), "arrivals"))
            .into_iter()
            .collect(),
        Load::Closed(closed) => {
            let population = Population::new(closed);
            let all = population.users();
            let own = || (0..all).filter(|user| part.has(*user));
            let users = part.share(all);
            let came = own().filter(|user| !population.intervals(*user).is_empty()).count() as u64;
            let quotas = || own().map(|user| user::quota(closed, user, all)).fold(0, u64::saturating_add);
            let asked = if closed.has_quota() { quotas() } else { begun + tally.owed.get() };
            let what =
                if closed.has_quota() { "iterations" } else { "iterations that catch_up was to make up for" };
            [short(came, users, "users ever began"), short(begun, asked, what)]
                .into_iter()
                .flatten()
                .collect()
        }
    }
}

impl Closed {
    /// Whether its iterations are counted.
    fn has_quota(&self) -> bool {
        self.iterations.is_some() || self.iterations_per_user.is_some()
    }

    /// Time that pacing and the rate cap give an iteration, on average; none without either.
    pub(super) fn mean_gap_ns(&self) -> u64 {
        let least_ns = self.max_rate_per_user_per_s.map_or(0, |rate| (1e9 / rate) as u64);
        self.pacing.map_or(0, |pause| (pause.mean_us() * 1e3) as u64).max(least_ns)
    }
}
