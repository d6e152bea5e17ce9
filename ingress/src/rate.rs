//! OpenWhisk's two rules for a namespace: invocations per minute, and concurrent invocations.
//!
//! As in its controller (`RateThrottler`, `ActivationThrottler`, `Messages`): every request is counted in its minute, also
//! one that is refused; a minute is a fixed stretch, not a sliding one; and the text says the count and what is allowed.
//! Its minutes are those of the wall clock; here they count from the start of the ingress, so that a run does not hang on
//! the second at which it began.

/// Length of a minute.
const MINUTE_NS: u64 = 60_000_000_000;

/// Counts the requests of the current minute.
#[derive(Debug)]
pub struct Minute {
    from_ns: u64,
    index: u64,
    count: u64,
}

impl Minute {
    /// The first minute begins at `from_ns`.
    pub fn new(from_ns: u64) -> Self {
        Self { from_ns, index: 0, count: 0 }
    }

    /// Counts one request; the count of its minute, itself included.
    pub fn count(&mut self, now_ns: u64) -> u64 {
        let index = now_ns.saturating_sub(self.from_ns) / MINUTE_NS;
        if index != self.index {
            self.index = index;
            self.count = 0;
        }
        self.count += 1;
        self.count
    }
}

/// Why a request is refused that is one too many in its minute; `None` if it is not.
pub fn too_many_in_minute(count: u64, allowed: u64) -> Option<String> {
    (count > allowed)
        .then(|| format!("Too many requests in the last minute (count: {count}, allowed: {allowed})."))
}

/// Why a request is refused while `count` others are under way; `None` if it is not.
pub fn too_many_at_once(count: u64, allowed: u64) -> Option<String> {
    (count >= allowed)
        .then(|| format!("Too many concurrent requests in flight (count: {count}, allowed: {allowed})."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_is_a_fixed_stretch_and_refused_requests_count_in_it() {
        let mut minute = Minute::new(7);
        let said: Vec<Option<String>> = (0..4).map(|_| too_many_in_minute(minute.count(7), 2)).collect();
        assert_eq!(said[..2], [None, None]);
        assert_eq!(said[3].as_deref(), Some("Too many requests in the last minute (count: 4, allowed: 2)."));
        assert_eq!(minute.count(7 + MINUTE_NS - 1), 5);
        assert_eq!(minute.count(7 + MINUTE_NS), 1);
        assert_eq!(minute.count(7 + 5 * MINUTE_NS), 1);
    }

    #[test]
    fn as_many_at_once_as_are_allowed_and_not_one_more() {
        assert_eq!(too_many_at_once(1, 2), None);
        assert_eq!(
            too_many_at_once(2, 2).as_deref(),
            Some("Too many concurrent requests in flight (count: 2, allowed: 2).")
        );
    }
}
