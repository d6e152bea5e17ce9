//! JSON → [`Load`].
use super::super::MAX_DURATION_US;
use super::super::cursor::{Node, Object};
use super::super::parse::Context;
use super::times::Unit;
use super::{
    Arrivals, Closed, Line, Load, MAX_COUNT, Open, Pause, SessionSpan, Shape, Sine, Stage, Times, Timing,
    WhenFull,
};
use std::sync::Arc;

/// Default for retiring users, in µs.
const GRACEFUL_US: u64 = 30_000_000;
/// Users at once.
const MAX_USERS: f64 = 1.0e6;
/// Arrivals per second.
const MAX_RATE: f64 = 1.0e7;

pub fn read(mut o: Object<'_>, context: &Context<'_>) -> Option<Load> {
    let models = [("closed", true), ("open", false)];
    let closed = o.required("model").and_then(|n| n.choice(&models))?;
    if closed { read_closed(o).map(Load::Closed) } else { read_open(o, context).map(Load::Open) }
}

fn read_closed(mut o: Object<'_>) -> Option<Closed> {
    let stages = o.required("stages").and_then(|n| stages(&n, user_stage, |line| line.from.max(line.to)));
    let graceful = o.optional("graceful_us").map_or(Some(GRACEFUL_US), |n| n.integer(0, MAX_DURATION_US));
    let sessions = [("user", SessionSpan::User), ("iteration", SessionSpan::Iteration)];
    let session = o.optional("session").map_or(Some(SessionSpan::User), |n| n.choice(&sessions));
    let spread = o.optional("start_spread_us").map_or(Some(0), |n| n.integer(0, MAX_DURATION_US));
    let rate = o.optional("max_rate_per_user_per_s").map(|n| n.number(1e-6, 1e6));
    let pacing = o.optional("pacing_us").map(|n| pause(&n));
    let catch_up = o.optional("catch_up").map_or(Some(false), |n| n.truth());
    if catch_up == Some(true) && rate.is_none() && pacing.is_none() {
        o.problem_at(
            "catch_up",
            "without pacing_us or max_rate_per_user_per_s there is nothing to catch up with",
        );
    }
    let iterations = o.optional("iterations").map(|n| n.integer(1, MAX_COUNT));
    let per_user = o.optional("iterations_per_user").map(|n| n.integer(1, MAX_COUNT));
    if iterations.is_some() && per_user.is_some() {
        o.problem("both iterations and iterations_per_user; only one of them can be asked for");
    }
    if let (Some(stages), Some(spread)) = (&stages, spread) {
        check_spread(&o, stages, spread);
    }
    o.finish();
    Some(Closed {
        stages: stages?,
        graceful_us: graceful?,
        session: session?,
        start_spread_us: spread?,
        max_rate_per_user_per_s: rate.flatten(),
        pacing: pacing.flatten(),
        catch_up: catch_up?,
        iterations: iterations.flatten(),
        iterations_per_user: per_user.flatten(),
    })
}

/// A user that is spread beyond the end would never begin.
fn check_spread(o: &Object<'_>, stages: &[Stage<Line>], spread_us: u64) {
    let duration_us: u64 = stages.iter().map(|s| s.duration_us).sum();
    if spread_us > 0 && spread_us >= duration_us {
        o.problem_at(
            "start_spread_us",
            format!("{spread_us} µs are not below the duration, {duration_us} µs"),
        );
    }
}

fn read_open(mut o: Object<'_>, context: &Context<'_>) -> Option<Open> {
    let kinds =
        [("uniform", Arrivals::Uniform), ("poisson", Arrivals::Poisson), ("scattered", Arrivals::Scattered)];
    let arrivals = o.optional("arrivals").map(|n| n.choice(&kinds));
    let given_stages = o.optional("stages").map(|n| stages(&n, rate_stage, Shape::peak));
    let given_times = o.optional("times").map(|n| n.object().and_then(|times| read_times(times, context)));
    if given_stages.is_some() == given_times.is_some() {
        o.problem("exactly one of stages, times is expected");
    }
    if given_times.is_some() && arrivals.is_some() {
        o.problem_at("arrivals", "times say when arrivals are due; arrivals belongs to stages");
    }
    let max_in_flight = o.optional("max_in_flight").map(|n| {
        let bound = n.integer(1, 1_000_000)?;
        if bound < context.lanes {
            n.problem(format!("less than one for each of the {} threads", context.lanes));
        }
        if bound > context.limits.max_connections {
            let limit = context.limits.max_connections;
            n.problem(format!("more than limits.max_connections allows, which is {limit}"));
        }
        Some(bound)
    });
    let fulls = [("queue", WhenFull::Queue), ("drop", WhenFull::Drop)];
    let when_full = o.optional("when_full").map_or(Some(WhenFull::Queue), |n| n.choice(&fulls));
    let max_arrivals = o.optional("max_arrivals").map(|n| n.integer(1, MAX_COUNT));
    if let Some(Some(stages)) = &given_stages {
        check_count(&o, stages);
    }
    o.finish();
    let timing = match (given_stages, given_times) {
        (Some(stages), _) => Timing::Rate(arrivals.unwrap_or(Some(Arrivals::Uniform))?, stages?),
        (None, times) => Timing::Times(Arc::new(times??)),
    };
    Some(Open {
        timing,
        max_in_flight: max_in_flight.flatten(),
        when_full: when_full?,
        max_arrivals: max_arrivals.flatten(),
    })
}

fn check_count(o: &Object<'_>, stages: &[Stage<Shape>]) {
    let expected = crate::schedule::Curve::new(stages).total();
    if expected > MAX_COUNT as f64 {
        o.problem_at("stages", format!("{expected:.0} arrivals; at most {MAX_COUNT} are allowed"));
    }
}

fn read_times(mut o: Object<'_>, context: &Context<'_>) -> Option<Times> {
    let units = [("s", Unit::S), ("ms", Unit::Ms), ("us", Unit::Us), ("ns", Unit::Ns)];
    let unit = o.required("unit").and_then(|n| n.choice(&units));
    let duration = o.optional("duration_us").map(|n| n.integer(1, MAX_DURATION_US));
    let file = o.required("file").and_then(|n| n.name().map(|name| (n, name)));
    o.finish();
    let (node, name) = file?;
    let unit = unit?;
    let duration_us = duration.map_or(Some(None), |given| given.map(Some))?;
    Times::read(&context.files.path(&name), unit, duration_us).map_err(|message| node.problem(message)).ok()
}

fn stages<S>(
    node: &Node<'_>,
    read: impl Fn(Object<'_>) -> Option<Stage<S>>,
    peak: impl Fn(&S) -> f64,
) -> Option<Vec<Stage<S>>> {
    let nodes = node.filled_array()?;
    let stages: Vec<_> = nodes.iter().filter_map(|n| n.object().and_then(&read)).collect();
    if stages.len() != nodes.len() {
        return None;
    }
    let duration = stages.iter().fold(0_u64, |sum, s| sum.saturating_add(s.duration_us));
    if duration == 0 || duration > MAX_DURATION_US {
        node.problem(format!("a duration of {duration} µs in all; allowed: 1 to {MAX_DURATION_US}"));
    } else if stages.iter().all(|s| peak(&s.shape) == 0.0) {
        node.problem("no load in any stage");
    }
    Some(stages)
}

fn user_stage(o: Object<'_>) -> Option<Stage<Line>> {
    stage(o, |o| line(o, "from_users", "to_users", MAX_USERS))
}

fn rate_stage(o: Object<'_>) -> Option<Stage<Shape>> {
    stage(o, |o| {
        if o.optional("mean_per_s").is_some() {
            sine(o).map(Shape::Sine)
        } else {
            line(o, "from_per_s", "to_per_s", MAX_RATE).map(Shape::Line)
        }
    })
}

fn stage<S>(mut o: Object<'_>, shape: impl Fn(&mut Object<'_>) -> Option<S>) -> Option<Stage<S>> {
    let name = o.optional("name").map(|n| n.str().map(str::to_owned));
    let shape = shape(&mut o);
    let duration_us = o.required("duration_us").and_then(|n| n.integer(0, MAX_DURATION_US));
    o.finish();
    Some(Stage { name: name.flatten(), shape: shape?, duration_us: duration_us? })
}

fn line(o: &mut Object<'_>, from: &'static str, to: &'static str, most: f64) -> Option<Line> {
    let start = o.required(from).and_then(|n| n.number(0.0, most));
    let end = o.required(to).and_then(|n| n.number(0.0, most));
    Some(Line { from: start?, to: end? })
}

fn sine(o: &mut Object<'_>) -> Option<Sine> {
    let mean = o.required("mean_per_s").and_then(|n| n.number(0.0, MAX_RATE / 2.0));
    let amplitude = o.required("amplitude_per_s").and_then(|n| {
        let amplitude = n.number(0.0, MAX_RATE / 2.0)?;
        if mean.is_some_and(|mean| amplitude > mean) {
            n.problem("above the mean: the rate would be negative");
        }
        Some(amplitude)
    });
    let period_us = o.required("period_us").and_then(|n| n.integer(1, MAX_DURATION_US));
    let phase = o.optional("phase").map_or(Some(0.0), |n| n.number(-1.0e6, 1.0e6));
    Some(Sine { mean: mean?, amplitude: amplitude?, period_us: period_us?, phase: phase? })
}

/// A pause: an object with exactly one of four keys.
pub fn pause(node: &Node<'_>) -> Option<Pause> {
    let mut o = node.object()?;
    let constant = o.optional("constant_us");
    let uniform = o.optional("uniform_us");
    let exponential = o.optional("exponential_us");
    let lognormal = o.optional("lognormal_us");
    let given = [&constant, &uniform, &exponential, &lognormal].iter().filter(|n| n.is_some()).count();
    if given != 1 {
        o.problem("exactly one of constant_us, uniform_us, exponential_us, lognormal_us is expected");
    }
    let constant = constant.and_then(|n| n.integer(0, MAX_DURATION_US)).map(Pause::Constant);
    let exponential = exponential.and_then(|n| n.integer(1, MAX_DURATION_US)).map(Pause::Exponential);
    let uniform = uniform.and_then(|n| two(&n, 0, "bounds")).map(|(a, b)| Pause::Uniform(a, b));
    let lognormal = lognormal
        .and_then(|n| two(&n, 1, "numbers, median and 95th percentile,"))
        .map(|(median, p95)| Pause::Lognormal(median, p95));
    o.finish();
    constant.or(uniform).or(exponential).or(lognormal)
}

/// Two durations, of which the first is not above the second.
fn two(node: &Node<'_>, least: u64, what: &str) -> Option<(u64, u64)> {
    let [a, b] = &node.array()?[..] else {
        node.problem(format!("two {what} are expected"));
        return None;
    };
    let (a, b) = (a.integer(least, MAX_DURATION_US)?, b.integer(least, MAX_DURATION_US)?);
    if a > b {
        node.problem(format!("{a} is above {b}; the smaller comes first"));
        return None;
    }
    Some((a, b))
}
