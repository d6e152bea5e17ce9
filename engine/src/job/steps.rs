//! JSON → [`Journey`]: the order of its steps.
use super::cursor::{Node, Object};
use super::load::pause;
use super::parse::Context;
use super::steps_request::request;
use super::{Branch, If, Journey, Repeat, Step};
use serde_json::Value;

/// Steps inside steps.
const MAX_DEPTH: usize = 16;
/// Rounds of one `repeat`.
const MAX_TIMES: u64 = 1_000_000;

pub fn journey(mut o: Object<'_>, context: &Context<'_>) -> Option<Journey> {
    let think = o.optional("think").map(|n| pause(&n));
    let variables = o.optional("variables").map_or(Some(Vec::new()), |n| variables(&n));
    let cookies = o.optional("cookies").map_or(Some(true), |n| n.truth());
    let steps = o.required("steps").and_then(|n| steps(&n, context, 0));
    o.finish();
    Some(Journey { think: think.flatten(), variables: variables?, cookies: cookies?, steps: steps? })
}

fn variables(node: &Node<'_>) -> Option<Vec<(String, Value)>> {
    let variable = |(name, node): (&str, Node<'_>)| (name.to_owned(), node.value.clone());
    Some(node.object()?.entries().into_iter().map(variable).collect())
}

fn steps(node: &Node<'_>, context: &Context<'_>, depth: usize) -> Option<Vec<Step>> {
    if depth > MAX_DEPTH {
        node.problem(format!("steps nested more than {MAX_DEPTH} deep"));
        return None;
    }
    let nodes = node.filled_array()?;
    let read = |n: &Node<'_>| n.object().and_then(|o| step(o, context, depth));
    // Every step is read before one that is wrong makes the list worthless.
    let steps: Vec<_> = nodes.iter().map(read).collect();
    steps.into_iter().collect()
}

fn step(mut o: Object<'_>, context: &Context<'_>, depth: usize) -> Option<Step> {
    const KINDS: [&str; 7] = ["request", "choose", "sequence", "once", "repeat", "if", "pause"];
    let given: Vec<_> = KINDS.iter().filter_map(|kind| Some((*kind, o.optional(kind)?))).collect();
    if given.len() != 1 {
        o.problem(format!("exactly one of {} is expected", KINDS.join(", ")));
    }
    let mut read = None;
    for (kind, node) in &given {
        read = match *kind {
            "request" => node.object().and_then(|o| request(o, context)).map(|r| Step::Request(Box::new(r))),
            "choose" => choose(node, context, depth),
            "sequence" => steps(node, context, depth + 1).map(Step::Sequence),
            "once" => steps(node, context, depth + 1).map(Step::Once),
            "repeat" => node.object().and_then(|o| repeat(o, context, depth)),
            "if" => node.object().and_then(|o| condition(o, context, depth)),
            _ => pause(node).map(Step::Pause),
        };
    }
    o.finish();
    read
}

fn choose(node: &Node<'_>, context: &Context<'_>, depth: usize) -> Option<Step> {
    let nodes = node.filled_array()?;
    let read = |n: &Node<'_>| n.object().and_then(|o| branch(o, context, depth));
    let branches: Vec<_> = nodes.iter().map(read).collect();
    let branches: Vec<_> = branches.into_iter().collect::<Option<_>>()?;
    if branches.iter().all(|b: &Branch| b.weight == 0.0) {
        node.problem("the weights sum to nothing");
    }
    Some(Step::Choose(branches))
}

fn branch(mut o: Object<'_>, context: &Context<'_>, depth: usize) -> Option<Branch> {
    let weight = o.required("weight").and_then(|n| n.number(0.0, 1e9));
    let steps = o.required("steps").and_then(|n| steps(&n, context, depth + 1));
    o.finish();
    Some(Branch { weight: weight?, steps: steps? })
}

fn repeat(mut o: Object<'_>, context: &Context<'_>, depth: usize) -> Option<Step> {
    let times = o.required("times").and_then(|n| {
        let (a, b) = n.range(0, MAX_TIMES)?;
        if b == 0 {
            n.problem("0 times: the steps would never be done; leave them out");
        }
        Some((a as u32, b as u32))
    });
    let node = o.required("steps");
    let steps = node.as_ref().and_then(|n| steps(n, context, depth + 1));
    if let (Some(node), Some(steps)) = (&node, &steps)
        && !steps.iter().any(takes_time)
    {
        node.problem("neither a request nor a pause in what is repeated");
    }
    o.finish();
    Some(Step::Repeat(Repeat { times: times?, steps: steps? }))
}

/// Whether a step can hold up whoever does it.
fn takes_time(step: &Step) -> bool {
    let any = |steps: &[Step]| steps.iter().any(takes_time);
    match step {
        Step::Request(_) | Step::Pause(_) => true,
        Step::Choose(branches) => branches.iter().any(|b| any(&b.steps)),
        Step::Sequence(steps) | Step::Once(steps) => any(steps),
        Step::Repeat(repeat) => any(&repeat.steps),
        Step::If(condition) => any(&condition.steps) || any(&condition.otherwise),
    }
}

fn condition(mut o: Object<'_>, context: &Context<'_>, depth: usize) -> Option<Step> {
    let condition = o.required("condition").and_then(|n| {
        let text = n.name()?;
        if !text.contains("{{") {
            n.problem("no {{ }} in the condition: it would always be the same");
        }
        Some(text)
    });
    let inner = o.required("steps").and_then(|n| steps(&n, context, depth + 1));
    let otherwise = o.optional("else").map_or(Some(Vec::new()), |n| steps(&n, context, depth + 1));
    let at = o.path.clone();
    o.finish();
    Some(Step::If(Box::new(If { condition: condition?, steps: inner?, otherwise: otherwise?, at })))
}
