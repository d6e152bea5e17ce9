//! How long a pause is.
use crate::job::Pause;
use crate::rng::Rng;

/// The tail of a lognormal distribution ends here: one draw in a run would else be longer than the run.
const LONGEST_MEDIANS: f64 = 100.0;
/// 95 % of a standard normal distribution is below this.
const P95_NORMAL: f64 = 1.644_853_626_951_472_2;

impl Pause {
    /// The mean of its draws, in µs.
    pub fn mean_us(self) -> f64 {
        match self {
            Self::Constant(us) | Self::Exponential(us) => us as f64,
            Self::Uniform(a, b) => (a + b) as f64 / 2.0,
            Self::Lognormal(median_us, p95_us) => {
                let sigma = (p95_us as f64 / median_us as f64).ln() / P95_NORMAL;
                median_us as f64 * (sigma * sigma / 2.0).exp()
            }
        }
    }

    /// Draws one, in ns.
    pub fn draw_ns(self, rng: &mut Rng) -> u64 {
        match self {
            Self::Constant(us) => us * 1000,
            Self::Uniform(a, b) => a * 1000 + rng.below((b - a) * 1000 + 1),
            Self::Exponential(mean_us) => (rng.exponential() * mean_us as f64 * 1000.0) as u64,
            Self::Lognormal(median_us, p95_us) => {
                let (median, p95) = (median_us as f64, p95_us as f64);
                let sigma = (p95 / median).ln() / P95_NORMAL;
                let draw = median * (sigma * rng.normal()).exp();
                (draw.min(LONGEST_MEDIANS * median) * 1000.0) as u64
            }
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
        for pause in [Pause::Exponential(90_000), Pause::Uniform(0, 9_000), Pause::Lognormal(50_000, 90_000)]
        {
            let (drawn, should) = (mean(pause), pause.mean_us() / 1e3);
            assert!((drawn / should - 1.0).abs() < 0.03, "{pause:?}: {drawn} ms, not {should}");
        }
        assert!((mean(Pause::Constant(250_000)) - 250.0).abs() < 1e-9);
        assert!((mean(Pause::Uniform(1_000_000, 3_000_000)) - 2000.0).abs() < 15.0);
        assert!((mean(Pause::Exponential(100_000)) - 100.0).abs() < 2.5);
        let mut lognormal: Vec<_> =
            (0..n).map(|_| Pause::Lognormal(1_000_000, 5_000_000).draw_ns(&mut rng)).collect();
        lognormal.sort_unstable();
        let share = |q: f64| lognormal[(q * f64::from(n)) as usize] as f64 / 1e9;
        assert!((share(0.5) - 1.0).abs() < 0.03 && (share(0.95) - 5.0).abs() < 0.25, "{}", share(0.95));
        assert!(lognormal.iter().all(|ns| *ns <= 100_000_000_000));
        let same = (0..9).map(|_| Pause::Lognormal(7, 7).draw_ns(&mut rng));
        assert!(same.into_iter().all(|ns| ns == 7000));
        let draws = (0..n).map(|_| Pause::Uniform(10, 20).draw_ns(&mut rng));
        assert!(draws.into_iter().all(|ns| (10_000..=20_000).contains(&ns)));
    }
}
