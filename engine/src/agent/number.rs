//! Numbers that a machine counts, and what they mean once two readings of them are known.
use std::collections::{BTreeMap, HashMap};

/// Values by metric, of one part of the machine.
pub type Values = BTreeMap<&'static str, f64>;

/// How a number is shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shown {
    /// As it is.
    Level,
    /// A counter: what was added, per second.
    Rate,
    /// A counter: what was added, divided by what was added to this other counter meanwhile.
    Share(f64),
}

/// One number as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Number {
    /// Which part of the machine: an interface, a mount; empty for the machine itself.
    pub part: String,
    /// Its name, with its unit once it is shown.
    pub metric: &'static str,
    /// The level, or the counter.
    pub value: f64,
    /// How it is shown.
    pub shown: Shown,
}

impl Number {
    /// Of the machine itself.
    pub fn of_host(metric: &'static str, value: f64, shown: Shown) -> Self {
        Self::of(String::new(), metric, value, shown)
    }

    /// Of a part of it.
    pub fn of(part: String, metric: &'static str, value: f64, shown: Shown) -> Self {
        Self { part, metric, value, shown }
    }
}

/// Turns counters into what is shown, from one reading to the next.
#[derive(Default)]
pub struct Meter {
    last: HashMap<(String, &'static str), (f64, Shown)>,
    last_ns: Option<u64>,
}

impl Meter {
    /// What a reading shows. A counter that is seen for the first time, or began anew, shows nothing yet; nor does a share of
    /// nothing.
    pub fn read(&mut self, numbers: Vec<Number>, t_ns: u64) -> BTreeMap<String, Values> {
        let elapsed_s = self.last_ns.map_or(0.0, |last| t_ns.saturating_sub(last) as f64 / 1e9);
        let mut kept = HashMap::with_capacity(numbers.len());
        let mut found: BTreeMap<String, Values> = BTreeMap::new();
        for Number { part, metric, value, shown } in numbers {
            let last = self.last.get(&(part.clone(), metric)).copied();
            if let Some(value) = shown_since(last, value, shown, elapsed_s).filter(|value| value.is_finite())
            {
                found.entry(part.clone()).or_default().insert(metric, value);
            }
            kept.insert((part, metric), (value, shown));
        }
        self.last = kept;
        self.last_ns = Some(t_ns);
        found
    }
}

fn shown_since(last: Option<(f64, Shown)>, value: f64, shown: Shown, elapsed_s: f64) -> Option<f64> {
    if shown == Shown::Level {
        return Some(value);
    }
    let (last_value, last_shown) = last?;
    if value < last_value {
        return None;
    }
    match (shown, last_shown) {
        (Shown::Rate, _) if elapsed_s > 0.0 => Some((value - last_value) / elapsed_s),
        (Shown::Share(whole), Shown::Share(last_whole)) if whole > last_whole => {
            Some((value - last_value) / (whole - last_whole))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(meter: &mut Meter, t_ns: u64, value: f64, as_what: Shown) -> Option<f64> {
        let found = meter.read(vec![Number::of_host("x", value, as_what)], t_ns);
        found.get("").and_then(|values| values.get("x")).copied()
    }

    #[test]
    fn a_rate_is_what_was_added_per_second() {
        let mut meter = Meter::default();
        assert_eq!(shown(&mut meter, 0, 100.0, Shown::Rate), None, "nothing to compare with");
        assert_eq!(shown(&mut meter, 2_000_000_000, 300.0, Shown::Rate), Some(100.0));
        assert_eq!(shown(&mut meter, 3_000_000_000, 50.0, Shown::Rate), None, "it began anew");
        assert_eq!(shown(&mut meter, 4_000_000_000, 60.0, Shown::Rate), Some(10.0));
        assert_eq!(shown(&mut meter, 4_000_000_000, 70.0, Shown::Rate), None, "no time went by");
    }

    #[test]
    fn a_share_is_of_another_counter() {
        let mut meter = Meter::default();
        assert_eq!(shown(&mut meter, 0, 5.0, Shown::Share(10.0)), None);
        assert_eq!(shown(&mut meter, 1, 6.0, Shown::Share(14.0)), Some(0.25));
        assert_eq!(shown(&mut meter, 2, 6.0, Shown::Share(14.0)), None, "nothing was added to the whole");
        assert_eq!(shown(&mut meter, 3, 9.0, Shown::Level), Some(9.0));
    }

    #[test]
    fn what_was_away_for_a_reading_is_compared_with_nothing() {
        let mut meter = Meter::default();
        meter.read(vec![Number::of("eth0".into(), "x", 1.0, Shown::Rate)], 0);
        meter.read(vec![], 1_000_000_000);
        let found = meter.read(vec![Number::of("eth0".into(), "x", 9.0, Shown::Rate)], 2_000_000_000);
        assert!(found.is_empty());
    }
}
