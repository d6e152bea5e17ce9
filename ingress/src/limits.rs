//! Bounds and policies: what they are, how they change, and which requests they refuse.

use crate::outcome::{Made, Refusal};
use crate::picker::Policy;
use crate::rate;
use serde::{Deserialize, Deserializer};

/// As many as Envoy's `max_pending_requests`.
const DEFAULT_PENDING: u64 = 1024;
/// Knative's timeout of a revision's requests.
const DEFAULT_HELD_TIMEOUT_MS: u64 = 300_000;

/// What holds for requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests held at most; `None` = no bound.
    pub pending: Option<u64>,
    /// While an instance is ready, requests held at most for each that is.
    pub pending_per_instance: Option<u64>,
    /// Held longer, a request is answered 504.
    pub held_timeout_ms: u64,
    /// Who takes a request.
    pub policy: Policy,
    /// OpenWhisk's bound on a namespace.
    pub invocations_per_minute: Option<u64>,
    /// OpenWhisk's bound on a namespace.
    pub concurrent_invocations: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            pending: Some(DEFAULT_PENDING),
            pending_per_instance: None,
            held_timeout_ms: DEFAULT_HELD_TIMEOUT_MS,
            policy: Policy::default(),
            invocations_per_minute: None,
            concurrent_invocations: None,
        }
    }
}

/// The command `limits`: what it names changes, the rest stays.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Change {
    /// See [`Limits`]; likewise the others.
    #[serde(deserialize_with = "said")]
    pub pending: Option<Option<u64>>,
    /// Null = no bound.
    #[serde(deserialize_with = "said")]
    pub pending_per_instance: Option<Option<u64>>,
    /// In ms.
    pub held_timeout_ms: Option<u64>,
    /// By name.
    pub policy: Option<Policy>,
    /// Null = no bound.
    #[serde(deserialize_with = "said")]
    pub invocations_per_minute: Option<Option<u64>>,
    /// Null = no bound.
    #[serde(deserialize_with = "said")]
    pub concurrent_invocations: Option<Option<u64>>,
}

/// A field that is there, null included.
#[allow(clippy::option_option, reason = "not said, said to be none, and a number are three things")]
fn said<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::deserialize(from).map(Some)
}

impl Limits {
    /// Takes what was said.
    pub fn change(&mut self, change: &Change) {
        fn take<T: Clone>(to: &mut T, from: Option<&T>) {
            if let Some(new) = from {
                to.clone_from(new);
            }
        }
        take(&mut self.pending, change.pending.as_ref());
        take(&mut self.pending_per_instance, change.pending_per_instance.as_ref());
        take(&mut self.held_timeout_ms, change.held_timeout_ms.as_ref());
        take(&mut self.policy, change.policy.as_ref());
        take(&mut self.invocations_per_minute, change.invocations_per_minute.as_ref());
        take(&mut self.concurrent_invocations, change.concurrent_invocations.as_ref());
    }

    /// What OpenWhisk's rules say of a request that is the `in_minute`-th of its minute while `at_once` others are under way.
    pub fn refused_by_rate(&self, in_minute: u64, at_once: u64) -> Option<Refusal> {
        let by_minute =
            self.invocations_per_minute.and_then(|allowed| rate::too_many_in_minute(in_minute, allowed));
        if let Some(text) = by_minute {
            return Some(Refusal { made: Made::Rate, text });
        }
        let at_once =
            self.concurrent_invocations.and_then(|allowed| rate::too_many_at_once(at_once, allowed));
        at_once.map(|text| Refusal { made: Made::Concurrent, text })
    }

    /// Whether one more request may not be held while `held` are and `ready` instances take requests.
    pub fn refused_by_room(&self, held: u64, ready: u64) -> Option<Refusal> {
        if let Some(pending) = self.pending.filter(|&pending| held >= pending) {
            let text = format!("{held} requests are held, and no more than {pending} are");
            return Some(Refusal { made: Made::Pending, text });
        }
        let bound = self.pending_per_instance?.saturating_mul(ready);
        (ready > 0 && held >= bound).then(|| Refusal {
            made: Made::Queue,
            text: format!("{held} requests are held for {ready} instances, and no more than {bound} are"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_changes_and_the_rest_stays() {
        let mut limits = Limits::default();
        limits.change(&Change {
            pending: Some(None),
            concurrent_invocations: Some(Some(3)),
            ..Change::default()
        });
        assert_eq!(limits, Limits { pending: None, concurrent_invocations: Some(3), ..Limits::default() });
        limits.change(&Change::default());
        assert_eq!(limits.concurrent_invocations, Some(3));
    }

    #[test]
    fn the_bound_of_held_requests_holds_with_and_without_instances() {
        let limits = Limits { pending: Some(4), pending_per_instance: Some(1), ..Limits::default() };
        let made = |held, ready| limits.refused_by_room(held, ready).map(|refusal| refusal.made);
        assert_eq!(made(3, 0), None, "without an instance only the whole bound holds");
        assert_eq!(made(4, 0), Some(Made::Pending));
        assert_eq!(made(1, 2), None);
        assert_eq!(made(2, 2), Some(Made::Queue));
        assert_eq!(made(4, 9), Some(Made::Pending));
        let none = Limits { pending: None, ..Limits::default() };
        assert_eq!(none.refused_by_room(1_000_000, 1), None);
    }

    #[test]
    fn the_rule_of_the_minute_speaks_before_that_of_concurrency() {
        let limits =
            Limits { invocations_per_minute: Some(2), concurrent_invocations: Some(1), ..Limits::default() };
        let made =
            |in_minute, at_once| limits.refused_by_rate(in_minute, at_once).map(|refusal| refusal.made);
        assert_eq!(made(2, 0), None);
        assert_eq!(made(3, 1), Some(Made::Rate));
        assert_eq!(made(2, 1), Some(Made::Concurrent));
    }
}
