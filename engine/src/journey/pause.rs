//! How long a pause is.
use crate::job::Pause;
use crate::rng::Rng;

impl Pause {
    /// Draws one, in ns.
    pub fn draw_ns(self, rng: &mut Rng) -> u64 {
        match self {
            Self::Constant(us) => us * 1000,
            Self::Uniform(a, b) => a * 1000 + rng.below((b - a) * 1000 + 1),
            Self::Exponential(mean_us) => (rng.exponential() * mean_us as f64 * 1000.0) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_have_their_bounds_and_means() {
        let mut rng = Rng::from_parts(&[3]);
        let n = 50_000;
        let mut mean =
            |pause: Pause| (0..n).map(|_| pause.draw_ns(&mut rng)).sum::<u64>() as f64 / f64::from(n) / 1e6;
        assert!((mean(Pause::Constant(250_000)) - 250.0).abs() < 1e-9);
        assert!((mean(Pause::Uniform(1_000_000, 3_000_000)) - 2000.0).abs() < 15.0);
        assert!((mean(Pause::Exponential(100_000)) - 100.0).abs() < 2.5);
        let draws = (0..n).map(|_| Pause::Uniform(10, 20).draw_ns(&mut rng));
        assert!(draws.into_iter().all(|ns| (10_000..=20_000).contains(&ns)));
    }
}
