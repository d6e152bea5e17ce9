//! How a rate goes within one stage: its integral and the inverse of that, x in s from the start of the stage.
use crate::job::{Line, Shape, Sine};
use std::f64::consts::PI;

/// Steps of a search for an offset; each at least halves the bracket, and 64 bits are the whole of it.
const SEARCH_STEPS: u32 = 80;

/// Level at `x`, of a stage that is `length` long.
pub fn level(shape: &Shape, x: f64, length: f64) -> f64 {
    match shape {
        Shape::Line(line) => line.from + slope(line, length) * x,
        Shape::Sine(sine) => {
            sine.mean + sine.amplitude * (2.0 * PI * (x / period_s(sine) + sine.phase).fract()).sin()
        }
    }
}

/// ∫ level from 0 to `x`.
pub fn area(shape: &Shape, x: f64, length: f64) -> f64 {
    match shape {
        Shape::Line(line) => x * (line.from + 0.5 * slope(line, length) * x),
        Shape::Sine(sine) => sine.mean * x + wave_area(sine, x),
    }
}

/// The offset at which the integral is `area`.
pub fn inverse(shape: &Shape, area: f64, length: f64) -> f64 {
    match shape {
        // from·x + slope·x²/2 = area, solved in the form that does not cancel for small slopes.
        Shape::Line(line) => {
            let root = (line.from * line.from + 2.0 * slope(line, length) * area).max(0.0).sqrt();
            2.0 * area / (line.from + root)
        }
        Shape::Sine(sine) => inverse_sine(sine, area, length),
    }
}

fn slope(line: &Line, length: f64) -> f64 {
    (line.to - line.from) / length
}

fn period_s(sine: &Sine) -> f64 {
    sine.period_us as f64 * 1e-6
}

/// ∫ amplitude · sin(2π (t/P + φ)) = (aP/2π) (cos 2πφ − cos 2π(x/P + φ)), as a product, which does not cancel.
fn wave_area(sine: &Sine, x: f64) -> f64 {
    let turns = x / period_s(sine);
    let (half, middle) = (0.5 * turns.fract(), sine.phase.fract() + 0.5 * turns.fract());
    sine.amplitude * period_s(sine) / PI * (2.0 * PI * middle).sin() * (2.0 * PI * half).sin()
}

/// Newton's method in a bracket: mean·x differs from the integral by at most amplitude · period ÷ π. Where the rate is near 0, and a
/// step would leave the bracket, the bracket is halved instead.
fn inverse_sine(sine: &Sine, area: f64, length: f64) -> f64 {
    let swing = sine.amplitude * period_s(sine) / PI;
    let mut low = ((area - swing) / sine.mean).max(0.0);
    let mut high = ((area + swing) / sine.mean).min(length);
    let shape = Shape::Sine(*sine);
    let mut x = (area / sine.mean).clamp(low, high);
    for _ in 0..SEARCH_STEPS {
        let excess = self::area(&shape, x, length) - area;
        if excess < 0.0 {
            low = x;
        } else {
            high = x;
        }
        let newton = x - excess / level(&shape, x, length);
        let next = if newton > low && newton < high { newton } else { 0.5 * (low + high) };
        // A tenth of a ns, below what is kept.
        if (next - x).abs() < 1e-10 || next <= low || next >= high {
            return next;
        }
        x = next;
    }
    x
}
