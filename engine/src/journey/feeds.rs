//! Which rows of its feeds an iteration takes.
use super::Session;
use crate::job::{Closed, Job, Load, Order, OwnPart, SessionSpan, Workload};
use crate::rng::Rng;
use crate::schedule::Population;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// The feeds that a workload uses.
#[derive(Debug, Default)]
pub struct RowPlan {
    /// Place among the feeds of the job, order, number of rows.
    feeds: Vec<(usize, Order, u32)>,
    /// Feeds of the job.
    all: usize,
    /// Iterations of closed load begun so far, by all threads; only counted where somebody asks.
    begun: Option<AtomicU64>,
    /// Whose iterations they are: workers take turns.
    part: OwnPart,
}

impl RowPlan {
    /// For the feeds that templates of a workload name.
    pub fn new(job: &Job, workload: &Workload, used: &BTreeSet<usize>) -> Result<Self, String> {
        let mut plan = Self { all: job.feeds.len(), part: job.own_part(), ..Self::default() };
        for place in used {
            let feed = &job.feeds[*place];
            let rows = feed.table.rows();
            match (feed.order, &workload.load) {
                (Order::UniquePerUser, Load::Closed(closed)) => check_unique(&feed.name, rows, closed)?,
                (Order::UniquePerUser, Load::Open(_)) => return Err(not_for(&feed.name, "open load")),
                (Order::Sequential, Load::Closed(_)) => plan.begun = Some(AtomicU64::new(0)),
                _ => {}
            }
            plan.feeds.push((*place, feed.order, rows as u32));
        }
        Ok(plan)
    }

    /// Takes the rows of an iteration.
    pub fn take(&self, session: &mut Session, user: u32, is_open: bool, rng: &mut Rng) {
        if self.feeds.is_empty() {
            return;
        }
        let number = match &self.begun {
            Some(begun) => {
                begun.fetch_add(1, Ordering::Relaxed) * self.part.of as u64 + self.part.worker as u64
            }
            None => u64::from(if is_open { user } else { 0 }),
        };
        let rows = &mut session.rows;
        rows.resize(self.all, 0);
        for (place, order, count) in &self.feeds {
            rows[*place] = match order {
                Order::Sequential => (number % u64::from(*count)) as u32,
                Order::Random => rng.below(u64::from(*count)) as u32,
                Order::UniquePerUser => user,
            };
        }
    }
}

fn not_for(name: &str, what: &str) -> String {
    format!(
        "the feed \"{name}\" is unique-per-user; that is not possible with {what}, only with closed load and session: user"
    )
}

fn check_unique(name: &str, rows: usize, closed: &Closed) -> Result<(), String> {
    if closed.session != SessionSpan::User {
        return Err(not_for(name, "session: iteration"));
    }
    let users = Population::new(closed).users();
    if users > rows as u64 {
        return Err(format!(
            "the feed \"{name}\" is unique-per-user and has {rows} rows; {users} users need as many"
        ));
    }
    Ok(())
}
