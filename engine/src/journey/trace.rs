//! `traceparent`: W3C Trace Context, level 1. Ids are a hash of what a row holds, so that nobody has to store them.
use super::Fields;

/// Of one step.
#[derive(Clone, Copy, Debug)]
pub struct Trace {
    /// Hashes below this are traced, of 2⁵³.
    below: u64,
    /// n, run and workload mixed already, for n from 0 to 3.
    prefixes: [u64; 4],
    step: u64,
}

/// Whose request it is.
#[derive(Clone, Copy, Debug)]
pub struct Traced {
    /// Thread.
    pub worker: u64,
    /// Virtual user, or arrival.
    pub user: u64,
    /// Iteration of the user.
    pub iteration: u64,
    /// As in the row.
    pub scheduled_us: i64,
}

impl Trace {
    /// For a share of the requests of a step; none for none of them.
    pub fn new(share: f64, run_id: &str, workload: &str, step: &str) -> Option<Self> {
        let prefix = |n: u64| mix(mix(n ^ fnv1a64(run_id)) ^ fnv1a64(workload));
        let below = (share * (1_u64 << 53) as f64).ceil() as u64;
        let prefixes = [prefix(0), prefix(1), prefix(2), prefix(3)];
        (below > 0).then_some(Self { below, prefixes, step: fnv1a64(step) })
    }

    /// Appends the header, if the request is one of those that are traced.
    pub fn push(&self, of: Traced, out: &mut Fields) {
        let word = |n: usize| {
            let parts = [of.worker, of.user, of.iteration, self.step, of.scheduled_us as u64];
            parts.into_iter().fold(self.prefixes[n], |hash, part| mix(hash ^ part))
        };
        if word(0) >> 11 >= self.below {
            return;
        }
        out.push_with(b"traceparent", |bytes| {
            bytes.extend_from_slice(b"00-");
            push_hex(word(1), bytes);
            push_hex(word(2), bytes);
            bytes.push(b'-');
            push_hex(word(3), bytes);
            bytes.extend_from_slice(b"-01");
        });
    }
}

fn push_hex(word: u64, out: &mut Vec<u8>) {
    let digit = |shift: u32| b"0123456789abcdef"[(word >> shift & 15) as usize];
    out.extend((0..16).rev().map(|place| digit(place * 4)));
}

/// FNV-1a, 64 bits.
fn fnv1a64(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The finaliser of splitmix64.
fn mix(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(share: f64, user: u64, scheduled_us: i64) -> Option<String> {
        let mut fields = Fields::default();
        let trace = Trace::new(share, "run", "shop", "list")?;
        trace.push(Traced { worker: 1, user, iteration: 3, scheduled_us }, &mut fields);
        fields.get(b"traceparent").map(|value| String::from_utf8_lossy(value).into_owned())
    }

    /// The first three outputs of splitmix64 seeded with 0, and FNV's own test vectors.
    #[test]
    fn hashes_are_the_documented_ones() {
        let gamma = 0x9e37_79b9_7f4a_7c15_u64;
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix(gamma), 0x6e78_9e6a_a1b9_65f4);
        assert_eq!((fnv1a64(""), fnv1a64("foobar")), (0xcbf2_9ce4_8422_2325, 0x8594_4171_f739_67e8));
    }

    #[test]
    fn the_header_is_well_formed_and_differs_from_request_to_request() {
        let first = header(1.0, 0, -5).expect("traced");
        let parts: Vec<_> = first.split('-').collect();
        assert_eq!(parts.iter().map(|p| p.len()).collect::<Vec<_>>(), [2, 32, 16, 2]);
        assert!(parts.iter().all(|p| p.bytes().all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase())));
        let others = [header(1.0, 1, -5), header(1.0, 0, -4)];
        assert!(others.iter().all(|o| o.as_deref().is_some_and(|o| o != first)));
    }

    #[test]
    fn the_share_is_kept() {
        let n = 20_000;
        let traced = (0..n).filter(|user| header(0.1, *user, 0).is_some()).count() as f64;
        assert!((traced / n as f64 - 0.1).abs() < 0.01, "{traced}");
        assert!(header(0.0, 0, 0).is_none() && (0..99).all(|user| header(1.0, user, 0).is_some()));
    }
}
