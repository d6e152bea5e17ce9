//! A number over time and its exact mean: the area under it, divided by the time.
//!
//! It is how Knative's queue-proxy measures concurrency (`pkg/http/stats`): each change adds the time that the number
//! stood, weighted by it, so nothing hangs on when somebody looks.

/// A number that changes in steps, and the area under it since it was last asked for.
#[derive(Clone, Debug)]
pub struct Area {
    value: u64,
    since_ns: u64,
    sum: u128,
}

impl Area {
    /// Zero from `now_ns` on.
    pub fn new(now_ns: u64) -> Self {
        Self { value: 0, since_ns: now_ns, sum: 0 }
    }

    /// What it is now.
    pub fn value(&self) -> u64 {
        self.value
    }

    /// One more.
    pub fn up(&mut self, now_ns: u64) {
        self.stand_until(now_ns);
        self.value += 1;
    }

    /// One less; nothing goes below zero.
    pub fn down(&mut self, now_ns: u64) {
        self.stand_until(now_ns);
        self.value = self.value.saturating_sub(1);
    }

    /// The mean over the time from `from_ns`, which is when it was last taken, to `now_ns`; a new interval begins.
    pub fn take_mean(&mut self, from_ns: u64, now_ns: u64) -> f64 {
        self.stand_until(now_ns);
        let sum = std::mem::take(&mut self.sum);
        match now_ns.saturating_sub(from_ns) {
            0 => self.value as f64,
            ns => sum as f64 / ns as f64,
        }
    }

    fn stand_until(&mut self, now_ns: u64) {
        self.sum += u128::from(self.value) * u128::from(now_ns.saturating_sub(self.since_ns));
        self.since_ns = self.since_ns.max(now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_the_area_under_the_steps() {
        let mut area = Area::new(1000);
        area.up(1000); // 1 for 200 ns
        area.up(1200); // 2 for 300 ns
        area.down(1500); // 1 for 500 ns
        // (1·200 + 2·300 + 1·500) / 1000
        assert!((area.take_mean(1000, 2000) - 1.3).abs() < 1e-12);
        assert!((area.take_mean(2000, 3000) - 1.0).abs() < 1e-12, "it goes on at the value where it stood");
    }

    #[test]
    fn an_interval_without_length_has_the_value_as_mean() {
        let mut area = Area::new(5);
        area.up(5);
        assert!((area.take_mean(5, 5) - 1.0).abs() < 1e-12);
    }
}
