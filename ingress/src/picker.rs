//! Which instance takes a request.
//!
//! The policies and Knative's choice among them are those of its activator (`pkg/activator/net/lb_policy.go` and
//! `throttler.go`): power of two choices without a concurrency limit, the first with room for limits up to 3, round-robin
//! above.

use serde::Deserialize;

/// How a request finds its instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// By the concurrency limit: none, small or larger.
    #[default]
    Knative,
    /// Of two at random, the one with fewer requests.
    #[serde(rename = "random_choice_2")]
    RandomChoice2,
    /// The first that has room, in the order in which they were added.
    FirstAvailable,
    /// Each in turn.
    RoundRobin,
    /// The one with the fewest requests; each in turn among equals.
    LeastOutstanding,
}

/// Limits up to this many get the first that has room.
const SMALL_CONCURRENCY: u64 = 3;

/// An instance, as far as the choice goes.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Larger for one that was added later.
    pub id: u64,
    /// Requests that it serves.
    pub in_flight: u64,
    /// Requests that it serves at most; 0 = no limit.
    pub concurrency: u64,
}

impl Candidate {
    /// Can it take one more?
    pub fn has_room(&self) -> bool {
        self.concurrency == 0 || self.in_flight < self.concurrency
    }
}

/// Chooses, and remembers whose turn it is.
#[derive(Debug)]
pub struct Picker {
    last: Option<u64>,
    random: fastrand::Rng,
}

impl Picker {
    /// `random` decides where chance does.
    pub fn new(random: fastrand::Rng) -> Self {
        Self { last: None, random }
    }

    /// The id of the one that takes the next request; `None` if none has room. `candidates` is gone through more than once,
    /// each time in the order of their ids.
    pub fn pick<I: Iterator<Item = Candidate> + Clone>(
        &mut self,
        policy: Policy,
        candidates: I,
    ) -> Option<u64> {
        let mut with_room = candidates.filter(Candidate::has_room);
        let first = with_room.clone().next()?;
        let policy = match (policy, first.concurrency) {
            (Policy::Knative, 0) => Policy::RandomChoice2,
            (Policy::Knative, ..=SMALL_CONCURRENCY) => Policy::FirstAvailable,
            (Policy::Knative, _) => Policy::RoundRobin,
            (other, _) => other,
        };
        let picked = match policy {
            Policy::Knative | Policy::FirstAvailable => first,
            Policy::RandomChoice2 => self.better_of_two(&with_room)?,
            Policy::RoundRobin => with_room.find(|one| self.is_later(one)).unwrap_or(first),
            Policy::LeastOutstanding => {
                with_room.min_by_key(|one| (one.in_flight, !self.is_later(one), one.id))?
            }
        };
        self.last = Some(picked.id);
        Some(picked.id)
    }

    /// Does it come after the one that was picked last?
    fn is_later(&self, one: &Candidate) -> bool {
        self.last.is_none_or(|last| one.id > last)
    }

    fn better_of_two<I: Iterator<Item = Candidate> + Clone>(&mut self, candidates: &I) -> Option<Candidate> {
        let count = candidates.clone().count();
        let one = self.random.usize(..count);
        let mut other = if count > 1 { self.random.usize(..count - 1) } else { 0 };
        other += usize::from(other >= one && count > 1);
        let (one, other) = (candidates.clone().nth(one)?, candidates.clone().nth(other)?);
        Some(match one.in_flight.cmp(&other.in_flight) {
            std::cmp::Ordering::Less => one,
            std::cmp::Ordering::Greater => other,
            std::cmp::Ordering::Equal => [one, other][self.random.usize(..2)],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(in_flight: &[u64], concurrency: u64) -> Vec<Candidate> {
        (0..).zip(in_flight).map(|(id, &in_flight)| Candidate { id, in_flight, concurrency }).collect()
    }

    fn picker() -> Picker {
        Picker::new(fastrand::Rng::with_seed(7))
    }

    fn picks(policy: Policy, candidates: &[Candidate], times: usize) -> Vec<Option<u64>> {
        let mut picker = picker();
        (0..times).map(|_| picker.pick(policy, candidates.iter().copied())).collect()
    }

    #[test]
    fn none_with_room_is_none() {
        for policy in [Policy::Knative, Policy::RandomChoice2, Policy::RoundRobin, Policy::LeastOutstanding] {
            assert_eq!(picks(policy, &[], 1), [None]);
            assert_eq!(picks(policy, &of(&[2, 2], 2), 1), [None]);
        }
    }

    #[test]
    fn the_first_available_is_filled_before_the_next() {
        assert_eq!(picks(Policy::FirstAvailable, &of(&[2, 1, 0], 2), 2), [Some(1), Some(1)]);
    }

    #[test]
    fn round_robin_leaves_out_those_without_room_and_starts_over() {
        assert_eq!(picks(Policy::RoundRobin, &of(&[0, 2, 0], 2), 4), [Some(0), Some(2), Some(0), Some(2)]);
    }

    #[test]
    fn the_least_outstanding_takes_it_and_equals_take_turns() {
        assert_eq!(picks(Policy::LeastOutstanding, &of(&[3, 1, 2], 0), 2), [Some(1), Some(1)]);
        assert_eq!(
            picks(Policy::LeastOutstanding, &of(&[1, 1, 1], 0), 4),
            [Some(0), Some(1), Some(2), Some(0)]
        );
    }

    #[test]
    fn of_two_choices_the_fuller_is_never_taken() {
        let picked = picks(Policy::RandomChoice2, &of(&[5, 0], 0), 200);
        assert!(picked.iter().all(|&id| id == Some(1)));
        // Of three, the fullest is always the worse of its pair; the other two share what comes.
        let picked = picks(Policy::RandomChoice2, &of(&[9, 0, 0], 0), 300);
        let shares: Vec<usize> =
            (0..3).map(|id| picked.iter().filter(|&&one| one == Some(id)).count()).collect();
        assert_eq!(shares[0], 0);
        assert!(shares[1] > 100 && shares[2] > 100, "{shares:?}");
    }

    #[test]
    fn of_equals_chance_takes_every_one() {
        let picked = picks(Policy::RandomChoice2, &of(&[0, 0, 0], 0), 300);
        for id in 0..3 {
            let share = picked.iter().filter(|&&one| one == Some(id)).count();
            assert!((60..140).contains(&share), "{id}: {share}");
        }
    }

    #[test]
    fn knative_chooses_by_the_concurrency_limit() {
        assert_eq!(picks(Policy::Knative, &of(&[0, 0], 3), 2), [Some(0), Some(0)], "first available up to 3");
        assert_eq!(picks(Policy::Knative, &of(&[0, 0], 4), 2), [Some(0), Some(1)], "round-robin above");
        assert!(
            picks(Policy::Knative, &of(&[1, 0], 0), 50).iter().all(|&id| id == Some(1)),
            "two choices without"
        );
    }
}
