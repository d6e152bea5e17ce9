//! A rate over time, its integral and the inverse of that.
use super::shape;
use crate::job::{Shape, Stage};

const NS_PER_S: f64 = 1e9;

/// Rate(t) for t in [0, end); it may jump between stages.
#[derive(Clone, Debug)]
pub struct Curve {
    segments: Vec<Segment>,
}

/// One stage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub start_ns: u64,
    pub end_ns: u64,
    shape: Shape,
    /// ∫ rate from 0 to `start_ns`.
    pub before: f64,
    /// ∫ rate from 0 to `end_ns`.
    pub after: f64,
}

impl Segment {
    fn length_s(&self) -> f64 {
        (self.end_ns - self.start_ns) as f64 / NS_PER_S
    }

    fn inside_s(&self, t_ns: u64) -> f64 {
        (t_ns - self.start_ns) as f64 / NS_PER_S
    }

    /// ∫ rate from the start of the segment to `t_ns`, which lies in it.
    fn area_to(&self, t_ns: u64) -> f64 {
        shape::area(&self.shape, self.inside_s(t_ns), self.length_s())
    }

    /// Offset at which the integral since the start of the segment is `area`.
    pub fn inverse_ns(&self, area: f64) -> u64 {
        if area <= 0.0 {
            return self.start_ns;
        }
        let x_s = shape::inverse(&self.shape, area, self.length_s());
        (self.start_ns + (x_s * NS_PER_S).round() as u64).min(self.end_ns)
    }
}

/// What a sum of products may have lost in its last digits.
pub(super) fn slack(area: f64) -> f64 {
    1e-9 + area * 1e-12
}

impl Curve {
    /// From the stages of a job; those of no length are left out.
    pub fn new(stages: &[Stage<Shape>]) -> Self {
        let mut segments = Vec::with_capacity(stages.len());
        let (mut start_ns, mut before) = (0, 0.0);
        for stage in stages.iter().filter(|s| s.duration_us > 0) {
            let end_ns = start_ns + stage.duration_us * 1000;
            let mut segment = Segment { start_ns, end_ns, shape: stage.shape, before, after: before };
            segment.after += segment.area_to(end_ns).max(0.0);
            (start_ns, before) = (end_ns, segment.after);
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

    /// The segment around `t_ns`; none from the end on.
    pub(super) fn place(&self, t_ns: u64) -> Option<(usize, &Segment)> {
        let index = self.segments.partition_point(|s| s.end_ns <= t_ns);
        self.segments.get(index).map(|segment| (index, segment))
    }

    /// The rate at `t_ns`; at a jump the one after it, and 0 from the end on.
    pub fn level(&self, t_ns: u64) -> f64 {
        self.place(t_ns).map_or(0.0, |(_, s)| shape::level(&s.shape, s.inside_s(t_ns), s.length_s()))
    }

    /// ∫ rate from 0 to `t_ns`: the expected number of arrivals.
    pub fn integral(&self, t_ns: u64) -> f64 {
        self.place(t_ns).map_or_else(|| self.total(), |(_, s)| s.before + s.area_to(t_ns))
    }

    /// ∫ rate over the whole schedule.
    pub fn total(&self) -> f64 {
        self.segments.last().map_or(0.0, |s| s.after)
    }

    /// The offset from which on the integral is above `area`: where the rate is 0 for a while, the end of that. Looks no earlier
    /// than segment `hint`, which is moved along: a caller that asks for growing areas pays for no search. Past the total: the end.
    pub fn inverse_from(&self, hint: &mut usize, area: f64) -> u64 {
        while let Some(segment) = self.segments.get(*hint) {
            if area + slack(area) < segment.after {
                return segment.inverse_ns(area - segment.before);
            }
            *hint += 1;
        }
        self.end_ns()
    }

    /// As [`Curve::inverse_from`], from the beginning.
    pub fn inverse(&self, area: f64) -> u64 {
        let mut first = self.segments.partition_point(|s| s.after <= area + slack(area));
        self.inverse_from(&mut first, area)
    }
}
