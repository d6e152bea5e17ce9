//! A small, fast generator of our own: the same seed must give the same run in every version, and a user costs 32 bytes.

/// xoshiro256++ (Blackman and Vigna, 2019), seeded through splitmix64.
#[derive(Clone, Debug)]
pub struct Rng([u64; 4]);

impl Rng {
    /// A generator of its own for every combination of `parts`.
    pub fn from_parts(parts: &[u64]) -> Self {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for part in parts {
            state = splitmix(&mut (state ^ part));
        }
        Self(std::array::from_fn(|_| splitmix(&mut state)))
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// In [0, 1), with 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// In [0, n); 0 for n = 0. The bias of the multiplication is below n ÷ 2⁶⁴.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }

    /// Normal with mean 0 and deviation 1 (Box and Muller, 1958).
    pub fn normal(&mut self) -> f64 {
        let (radius, angle) = ((2.0 * self.exponential()).sqrt(), std::f64::consts::TAU * self.unit());
        radius * angle.cos()
    }
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_reproduce_and_differ() {
        let draw = |parts: &[u64]| Rng::from_parts(parts).next_u64();
        assert_eq!(draw(&[7, 0, 3]), draw(&[7, 0, 3]));
        let all: std::collections::BTreeSet<_> = (0..1000).map(|user| draw(&[7, 0, user])).collect();
        assert_eq!(all.len(), 1000);
        assert_ne!(draw(&[1, 2]), draw(&[2, 1]));
    }

    #[test]
    fn draws_stay_in_bounds_and_have_the_right_mean() {
        let mut rng = Rng::from_parts(&[1]);
        let n = 100_000;
        let below =
            (0..n).map(|_| rng.below(6)).inspect(|x| assert!(*x < 6)).sum::<u64>() as f64 / f64::from(n);
        assert!((below - 2.5).abs() < 0.03, "{below}");
        let mean = (0..n).map(|_| rng.exponential()).sum::<f64>() / f64::from(n);
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
        let normal: Vec<_> = (0..n).map(|_| rng.normal()).collect();
        let moment = |k: i32| normal.iter().map(|x| x.powi(k)).sum::<f64>() / f64::from(n);
        assert!(moment(1).abs() < 0.02 && (moment(2) - 1.0).abs() < 0.03, "{} {}", moment(1), moment(2));
        assert_eq!(rng.below(0), 0);
    }
}
