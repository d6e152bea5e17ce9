//! Scattered arrivals: a given number in each stage, each at a random instant of its rate curve.
use super::Curve;
use super::arrivals::due_count;
use super::curve::Segment;
use crate::rng::Rng;

/// The offsets of one stage in their order.
///
/// Sorted uniform draws come one after another without being kept: the least of n has 1 − (1 − v)^(1/n), and given it the others
/// are n − 1 draws from what is left (Bentley and Saxe, 1980). Each stage draws for itself, so that a count needs no other.
pub struct ScatteredStage {
    /// Number of its first arrival.
    pub first: u64,
    segment: Segment,
    rng: Rng,
    left: u64,
    /// ln of the part above the last draw.
    log_rest: f64,
    last_ns: u64,
}

impl ScatteredStage {
    pub fn new(segment: &Segment, index: usize, seed: [u64; 3]) -> Self {
        let first = due_count(segment.before);
        Self {
            first,
            segment: *segment,
            rng: Rng::from_parts(&[seed[0], seed[1], seed[2], index as u64]),
            left: due_count(segment.after) - first,
            log_rest: 0.0,
            last_ns: segment.start_ns,
        }
    }
}

impl Iterator for ScatteredStage {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if self.left == 0 {
            return None;
        }
        self.log_rest -= self.rng.exponential() / self.left as f64;
        self.left -= 1;
        let share = -self.log_rest.exp_m1();
        let offset_ns = self.segment.inverse_ns(share * (self.segment.after - self.segment.before));
        self.last_ns = offset_ns.max(self.last_ns).min(self.segment.end_ns - 1);
        Some(self.last_ns)
    }
}

/// Mean number of arrivals before `t_ns`: those of earlier stages, and of this one the share of its area that is behind.
pub fn expected_scattered(curve: &Curve, t_ns: u64) -> f64 {
    let Some((_, segment)) = curve.place(t_ns) else { return due_count(curve.total()) as f64 };
    let (first, after) = (due_count(segment.before), due_count(segment.after));
    let area = segment.after - segment.before;
    let share = if area > 0.0 { (curve.integral(t_ns) - segment.before) / area } else { 0.0 };
    first as f64 + (after - first) as f64 * share
}
