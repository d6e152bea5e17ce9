//! JSON → [`Load`].
use super::cursor::{Node, Object};
use super::parse::Context;
use super::{Arrivals, Closed, Load, MAX_DURATION_US, Open, Pause, Session, Stage, WhenFull};

/// Arrivals and users are numbered with 32 bits in a row.
const MAX_COUNT: f64 = 4.0e9;
/// Default for retiring users, in µs.
const GRACEFUL_US: u64 = 30_000_000;

pub fn read(mut o: Object<'_>, context: &Context<'_>) -> Option<Load> {
    let models = [("closed", true), ("open", false)];
    let closed = o.required("model").and_then(|n| n.choice(&models))?;
    if closed { read_closed(o, context).map(Load::Closed) } else { read_open(o, context).map(Load::Open) }
}

fn read_closed(mut o: Object<'_>, context: &Context<'_>) -> Option<Closed> {
    let stages = o.required("stages").and_then(|n| stages(&n, "from_users", "to_users", 1.0e6));
    let graceful = o.optional("graceful_us").map_or(Some(GRACEFUL_US), |n| n.integer(0, MAX_DURATION_US));
    let sessions = [("user", Session::User), ("iteration", Session::Iteration)];
    let session = o.optional("session").map_or(Some(Session::User), |n| n.choice(&sessions));
    let rate = o.optional("max_rate_per_user_per_s").map(|n| n.number(1e-6, 1e6));
    let pacing = o.optional("pacing_us").map(|n| pause(&n));
    let iterations = o.optional("iterations").map(|n| n.integer(1, MAX_COUNT as u64));
    let per_user = o.optional("iterations_per_user").map(|n| n.integer(1, MAX_COUNT as u64));
    if iterations.is_some() && per_user.is_some() {
        o.problem("both iterations and iterations_per_user; only one of them can be asked for");
    }
    let _ = context;
    o.finish();
    Some(Closed {
        stages: stages?,
        graceful_us: graceful?,
        session: session?,
        max_rate_per_user_per_s: rate.flatten(),
        pacing: pacing.flatten(),
        iterations: iterations.flatten(),
        iterations_per_user: per_user.flatten(),
    })
}

fn read_open(mut o: Object<'_>, context: &Context<'_>) -> Option<Open> {
    let kinds = [("uniform", Arrivals::Uniform), ("poisson", Arrivals::Poisson)];
    let arrivals = o.optional("arrivals").map_or(Some(Arrivals::Uniform), |n| n.choice(&kinds));
    let stages = o.required("stages").and_then(|n| stages(&n, "from_per_s", "to_per_s", 1.0e7));
    let max_in_flight = o.optional("max_in_flight").map(|n| {
        let bound = n.integer(1, 1_000_000)?;
        if bound < context.threads {
            n.problem(format!("less than one for each of the {} threads", context.threads));
        }
        if bound > context.limits.max_connections {
            let limit = context.limits.max_connections;
            n.problem(format!("more than limits.max_connections allows, which is {limit}"));
        }
        Some(bound)
    });
    let fulls = [("queue", WhenFull::Queue), ("drop", WhenFull::Drop)];
    let when_full = o.optional("when_full").map_or(Some(WhenFull::Queue), |n| n.choice(&fulls));
    let max_arrivals = o.optional("max_arrivals").map(|n| n.integer(1, MAX_COUNT as u64));
    let expected: f64 =
        stages.iter().flatten().map(|s| (s.from + s.to) * 0.5e-6 * s.duration_us as f64).sum();
    if expected > MAX_COUNT {
        o.problem_at("stages", format!("{expected:.0} arrivals; at most {MAX_COUNT:.0} are allowed"));
    }
    o.finish();
    Some(Open {
        arrivals: arrivals?,
        stages: stages?,
        max_in_flight: max_in_flight.flatten(),
        when_full: when_full?,
        max_arrivals: max_arrivals.flatten(),
    })
}

fn stages(node: &Node<'_>, from: &'static str, to: &'static str, most: f64) -> Option<Vec<Stage>> {
    let nodes = node.filled_array()?;
    let stages: Vec<_> =
        nodes.iter().filter_map(|n| n.object().and_then(|o| stage(o, from, to, most))).collect();
    if stages.len() != nodes.len() {
        return None;
    }
    let duration = stages.iter().fold(0_u64, |sum, s| sum.saturating_add(s.duration_us));
    if duration == 0 || duration > MAX_DURATION_US {
        node.problem(format!("a duration of {duration} µs in all; allowed: 1 to {MAX_DURATION_US}"));
    } else if stages.iter().all(|s| s.from == 0.0 && s.to == 0.0) {
        node.problem("no load in any stage");
    }
    Some(stages)
}

fn stage(mut o: Object<'_>, from: &'static str, to: &'static str, most: f64) -> Option<Stage> {
    let name = o.optional("name").map(|n| n.str().map(str::to_owned));
    let start = o.required(from).and_then(|n| n.number(0.0, most));
    let end = o.required(to).and_then(|n| n.number(0.0, most));
    let duration_us = o.required("duration_us").and_then(|n| n.integer(0, MAX_DURATION_US));
    o.finish();
    Some(Stage { name: name.flatten(), from: start?, to: end?, duration_us: duration_us? })
}

/// A pause: an object with exactly one of three keys.
pub fn pause(node: &Node<'_>) -> Option<Pause> {
    let mut o = node.object()?;
    let constant = o.optional("constant_us");
    let uniform = o.optional("uniform_us");
    let exponential = o.optional("exponential_us");
    let given = [&constant, &uniform, &exponential].iter().filter(|n| n.is_some()).count();
    if given != 1 {
        o.problem("exactly one of constant_us, uniform_us, exponential_us is expected");
    }
    let constant = constant.and_then(|n| n.integer(0, MAX_DURATION_US)).map(Pause::Constant);
    let exponential = exponential.and_then(|n| n.integer(1, MAX_DURATION_US)).map(Pause::Exponential);
    let uniform = uniform.and_then(|n| {
        let bounds = n.array()?;
        let [a, b] = &bounds[..] else {
            n.problem("two bounds are expected");
            return None;
        };
        let (a, b) = (a.integer(0, MAX_DURATION_US)?, b.integer(0, MAX_DURATION_US)?);
        if a > b {
            n.problem("the first bound is above the second");
            return None;
        }
        Some(Pause::Uniform(a, b))
    });
    o.finish();
    constant.or(uniform).or(exponential)
}
