//! A piecewise linear level over time, its integral and the inverse of that.
use crate::job::Stage;

const NS_PER_S: f64 = 1e9;

/// Level(t) for t in [0, end), linear within each segment; it may jump between them.
#[derive(Clone, Debug)]
pub struct Curve {
    segments: Vec<Segment>,
}

/// One stage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub start_ns: u64,
    pub end_ns: u64,
    pub from: f64,
    pub to: f64,
    /// ∫ level from 0 to `start_ns`, in level × seconds.
    before: f64,
}

impl Segment {
    fn length_s(&self) -> f64 {
        (self.end_ns - self.start_ns) as f64 / NS_PER_S
    }

    fn area(&self) -> f64 {
        0.5 * (self.from + self.to) * self.length_s()
    }

    fn slope(&self) -> f64 {
        (self.to - self.from) / self.length_s()
    }

    /// Offset at which the level is `level`; only for a level between `from` and `to`.
    pub fn crossing_ns(&self, level: f64) -> u64 {
        let share = ((level - self.from) / (self.to - self.from)).clamp(0.0, 1.0);
        self.start_ns + (share * (self.end_ns - self.start_ns) as f64).round() as u64
    }

    /// Offset at which the integral since the start of the segment is `area`.
    ///
    /// from·x + slope·x²/2 = area, solved in the form that does not cancel for small slopes.
    fn inverse_ns(&self, area: f64) -> u64 {
        if area <= 0.0 {
            return self.start_ns;
        }
        let root = (self.from * self.from + 2.0 * self.slope() * area).max(0.0).sqrt();
        let x_s = 2.0 * area / (self.from + root);
        (self.start_ns + (x_s * NS_PER_S).round() as u64).min(self.end_ns)
    }
}

impl Curve {
    /// From the stages of a job; those of no length are left out.
    pub fn new(stages: &[Stage]) -> Self {
        let mut segments = Vec::with_capacity(stages.len());
        let (mut start_ns, mut before) = (0, 0.0);
        for stage in stages.iter().filter(|s| s.duration_us > 0) {
            let end_ns = start_ns + stage.duration_us * 1000;
            let segment = Segment { start_ns, end_ns, from: stage.from, to: stage.to, before };
            before += segment.area();
            start_ns = end_ns;
            segments.push(segment);
        }
        Self { segments }
    }

    pub(super) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// End of the schedule.
    pub fn end_ns(&self) -> u64 {
        self.segments.last().map_or(0, |s| s.end_ns)
    }

    /// The level at `t_ns`; at a jump the one after it, and 0 from the end on.
    pub fn level(&self, t_ns: u64) -> f64 {
        let after = self.segments.partition_point(|s| s.end_ns <= t_ns);
        self.segments.get(after).map_or(0.0, |s| s.from + s.slope() * ((t_ns - s.start_ns) as f64 / NS_PER_S))
    }

    /// Whether the level is constant around `t_ns`.
    #[cfg(test)]
    pub(super) fn is_flat(&self, t_ns: u64) -> bool {
        let after = self.segments.partition_point(|s| s.end_ns <= t_ns);
        self.segments.get(after).is_none_or(|s| (s.to - s.from).abs() < f64::EPSILON)
    }

    /// ∫ level from 0 to `t_ns`: for a rate, the expected number of arrivals.
    pub fn integral(&self, t_ns: u64) -> f64 {
        let after = self.segments.partition_point(|s| s.end_ns <= t_ns);
        self.segments.get(after).map_or_else(
            || self.total(),
            |s| {
                let x = (t_ns - s.start_ns) as f64 / NS_PER_S;
                s.before + x * (s.from + 0.5 * s.slope() * x)
            },
        )
    }

    /// ∫ level over the whole schedule.
    pub fn total(&self) -> f64 {
        self.segments.last().map_or(0.0, |s| s.before + s.area())
    }

    /// The first offset at which the integral reaches `area`, looking no earlier than segment `hint`, which is moved
    /// along: a caller that asks for growing areas pays for no search. Past the total: the end.
    pub fn inverse_from(&self, hint: &mut usize, area: f64) -> u64 {
        while let Some(segment) = self.segments.get(*hint) {
            if area <= segment.before + segment.area() && segment.area() > 0.0 {
                return segment.inverse_ns(area - segment.before);
            }
            *hint += 1;
        }
        self.end_ns()
    }

    /// As [`Curve::inverse_from`], from the beginning.
    pub fn inverse(&self, area: f64) -> u64 {
        self.inverse_from(&mut 0, area)
    }
}
