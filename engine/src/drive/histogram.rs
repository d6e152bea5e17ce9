//! Counts of µs in buckets whose width grows with the value: within 0.8 %, for any 32-bit value, in 14 KiB.
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Buckets for each doubling.
const SUB: u32 = 128;
const SUB_BITS: u32 = SUB.trailing_zeros();
const BUCKETS: usize = ((32 - SUB_BITS + 1) * SUB) as usize;

fn bucket(value: u32) -> usize {
    let shift = (32 - value.leading_zeros()).saturating_sub(SUB_BITS + 1);
    // Below 2·SUB every value has a bucket of its own; above, the top bits name it.
    (shift * SUB + (value >> shift)) as usize
}

/// The largest value of a bucket.
fn upper(bucket: usize) -> u32 {
    let bucket = bucket as u32;
    let shift = (bucket / SUB).saturating_sub(1);
    let top = bucket - shift * SUB;
    ((u64::from(top + 1) << shift) - 1) as u32
}

/// Written by one thread, read by another at any moment; nobody ever waits.
#[derive(Debug)]
pub struct Histogram(Box<[AtomicU32]>);

impl Default for Histogram {
    fn default() -> Self {
        Self((0..BUCKETS).map(|_| AtomicU32::new(0)).collect())
    }
}

impl Histogram {
    /// Counts a value. Only one thread may do so: it reads and writes without locking the bus.
    pub fn add(&self, value: u32) {
        let count = &self.0[bucket(value)];
        count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Adds what was counted since the last call to `into`, which may collect several histograms.
    pub fn collect(&self, seen: &mut Counts, into: &mut Counts) {
        for ((count, seen), into) in self.0.iter().zip(&mut seen.0).zip(&mut into.0) {
            let now = count.load(Relaxed);
            *into += u64::from(now.wrapping_sub(*seen as u32));
            *seen = u64::from(now);
        }
    }
}

/// A snapshot.
#[derive(Clone, Debug)]
pub struct Counts(Box<[u64]>);

impl Default for Counts {
    fn default() -> Self {
        Self(vec![0; BUCKETS].into_boxed_slice())
    }
}

impl Counts {
    /// Values counted.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Everything from another.
    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a += b);
    }

    /// The value that a share `q` of all values does not exceed; none if there are no values.
    pub fn quantile(&self, q: f64) -> Option<u32> {
        let total = self.total();
        let rank = ((q * total as f64).ceil() as u64).clamp(1, total.max(1));
        let mut sum = 0;
        let at = self.0.iter().position(|count| {
            sum += count;
            sum >= rank
        })?;
        Some(upper(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_narrow_and_complete() {
        let mut last = 0;
        for value in (0..5000).chain((0..32).flat_map(|b| [(1_u32 << b) - 1, 1 << b])).chain([u32::MAX]) {
            let top = upper(bucket(value));
            assert!(
                top >= value && f64::from(top - value) <= f64::from(value) / 128.0 + 0.5,
                "{value} -> {top}"
            );
            last = last.max(bucket(value));
        }
        assert_eq!(last, BUCKETS - 1);
    }

    #[test]
    fn quantiles_and_differences() {
        let histogram = Histogram::default();
        let (mut seen, mut first, mut second) = (Counts::default(), Counts::default(), Counts::default());
        assert_eq!(first.quantile(0.5), None);
        (1..=100).for_each(|v| histogram.add(v));
        histogram.collect(&mut seen, &mut first);
        assert_eq!(
            (first.quantile(0.5), first.quantile(0.99), first.quantile(1.0)),
            (Some(50), Some(99), Some(100))
        );
        histogram.add(7);
        histogram.collect(&mut seen, &mut second);
        assert_eq!((second.total(), second.quantile(0.5)), (1, Some(7)));
    }
}
