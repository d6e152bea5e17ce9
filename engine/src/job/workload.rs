//! Workloads: a load model and a journey, and what lies between them.
use super::cursor::{Node, Object};
use super::parse::Context;
use super::{Journey, Load, MAX_DURATION_US, load, steps, steps_request};
use serde_json::Value;
use serde_json_path::JsonPath;
use std::collections::BTreeSet;

/// A load model and a journey.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Its name in the records.
    pub name: String,
    /// Rows scheduled before this are flagged.
    pub warmup_us: u64,
    /// Longest time of a request, unless its step says otherwise.
    pub timeout_us: u64,
    /// When.
    pub load: Load,
    /// What.
    pub journey: Journey,
    /// How connections are used.
    pub connections: Connections,
    /// Indices into [`super::Job::targets`]: the requests of iteration or arrival k go to the k-th of them, modulo their number.
    /// None: to the targets of the steps.
    pub rotate: Vec<usize>,
    /// How an answer tells a cold start.
    pub cold: Option<Cold>,
}

/// How connections are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connections {
    /// Whose they are.
    pub policy: ConnectionPolicy,
    /// Not used for another request after this.
    pub max_age_us: Option<u64>,
    /// Requests on one connection at most.
    pub max_requests: Option<u64>,
}

/// Whose a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionPolicy {
    /// Each user keeps its own.
    PerUser,
    /// Whoever needs one takes it from the thread's pool.
    Pool,
    /// Each request opens its own.
    New,
}

impl Connections {
    /// What a load model has without being asked.
    fn of(load: &Load) -> Self {
        let policy = match load {
            Load::Closed(_) => ConnectionPolicy::PerUser,
            Load::Open(_) => ConnectionPolicy::Pool,
        };
        Self { policy, max_age_us: None, max_requests: None }
    }
}

/// How an answer tells a cold start: the first sign that is given and found decides.
#[derive(Clone, Debug)]
pub struct Cold {
    /// A header, and its value after a cold start.
    pub header: Option<(String, String)>,
    /// A place in a JSON body, and what is there after a cold start.
    pub json: Option<(JsonPath, Value)>,
    /// A request that takes longer met a cold start.
    pub above_us: Option<u64>,
}

/// Reads all of a job.
pub fn read_all(node: &Node<'_>, context: &Context<'_>) -> Option<Vec<Workload>> {
    let nodes = node.filled_array()?;
    if nodes.len() > 255 {
        node.problem("more than 255 workloads");
    }
    let mut names = BTreeSet::new();
    let mut workloads = Vec::new();
    for node in &nodes {
        let Some(workload) = node.object().and_then(|o| read(o, context)) else { continue };
        if !names.insert(workload.name.clone()) {
            node.problem(format!("a second workload named \"{}\"", workload.name));
        }
        workloads.push(workload);
    }
    Some(workloads)
}

fn read(mut o: Object<'_>, context: &Context<'_>) -> Option<Workload> {
    let name = o.required("name").and_then(|n| n.name());
    let warmup_us = o.optional("warmup_us").map_or(Some(0), |n| n.integer(0, MAX_DURATION_US));
    // A row has 32 bits for µs, and MAX means "did not happen".
    let timeout_us = o.required("timeout_us").and_then(|n| n.integer(1, steps_request::MAX_TIMEOUT_US));
    let load = o.required("load").and_then(|n| n.object()).and_then(|n| load::read(n, context));
    let rotate = o.optional("rotate").map_or(Some(Vec::new()), |n| read_rotate(&n, context));
    let in_turn = rotate.as_ref().and_then(|targets| targets.first().copied());
    let inside = Context { default_target: in_turn.or(context.default_target), ..*context };
    let journey = o.required("journey").and_then(|n| n.object()).and_then(|n| steps::journey(n, &inside));
    let default = load.as_ref().map(Connections::of);
    let connections = match o.optional("connections") {
        Some(node) => node.object().zip(default).and_then(|(o, default)| read_connections(o, default)),
        None => default,
    };
    let cold = o.optional("cold").map(|n| n.object().map(read_cold));
    if let (Some(warmup), Some(load)) = (warmup_us, &load)
        && warmup > 0
        && warmup >= load.duration_us()
    {
        o.problem_at("warmup_us", "the warm-up is as long as the whole schedule: nothing would be measured");
    }
    o.finish();
    Some(Workload {
        name: name?,
        warmup_us: warmup_us?,
        timeout_us: timeout_us?,
        connections: connections?,
        load: load?,
        journey: journey?,
        rotate: rotate?,
        cold: cold.flatten(),
    })
}

fn read_connections(mut o: Object<'_>, default: Connections) -> Option<Connections> {
    let policies = [
        ("per-user", ConnectionPolicy::PerUser),
        ("pool", ConnectionPolicy::Pool),
        ("new", ConnectionPolicy::New),
    ];
    let policy = o.optional("policy").map_or(Some(default.policy), |n| n.choice(&policies));
    let max_age = o.optional("max_age_us").map(|n| n.integer(1, MAX_DURATION_US));
    let max_requests = o.optional("max_requests").map(|n| n.integer(1, u64::from(u32::MAX)));
    if policy == Some(ConnectionPolicy::New) {
        for (key, given) in [("max_age_us", max_age.is_some()), ("max_requests", max_requests.is_some())] {
            if given {
                o.problem_at(key, "with policy \"new\" every connection serves one request");
            }
        }
    }
    o.finish();
    Some(Connections { policy: policy?, max_age_us: max_age.flatten(), max_requests: max_requests.flatten() })
}

fn read_rotate(node: &Node<'_>, context: &Context<'_>) -> Option<Vec<usize>> {
    let find = |n: &Node<'_>| {
        let name = n.str()?;
        let found = context.targets.iter().position(|t| t == name);
        if found.is_none() {
            n.problem(format!("\"{name}\" is no target; targets: {}", context.targets.join(", ")));
        }
        found
    };
    node.filled_array()?.iter().map(find).collect()
}

fn read_cold(mut o: Object<'_>) -> Cold {
    let header = o.optional("header").map(|n| n.object().and_then(read_cold_header));
    let json = o.optional("json").map(|n| n.object().and_then(read_cold_json));
    let above = o.optional("above_us").map(|n| n.integer(1, steps_request::MAX_TIMEOUT_US));
    if header.is_none() && json.is_none() && above.is_none() {
        o.problem("at least one of header, json, above_us is expected");
    }
    o.finish();
    Cold { header: header.flatten(), json: json.flatten(), above_us: above.flatten() }
}

fn read_cold_header(mut o: Object<'_>) -> Option<(String, String)> {
    let name = o.required("name").and_then(|n| {
        let name = n.name()?;
        if !steps_request::is_token(&name) {
            n.problem("no valid header name");
        }
        Some(name)
    });
    let equals = o.required("equals").and_then(|n| n.str()).map(str::to_owned);
    o.finish();
    Some((name?, equals?))
}

fn read_cold_json(mut o: Object<'_>) -> Option<(JsonPath, Value)> {
    let path = o.required("path").and_then(|n| {
        let text = n.str()?;
        JsonPath::parse(text).map_err(|e| n.problem(format!("\"{text}\" is no JSONPath: {e}"))).ok()
    });
    let equals = o.required("equals").map(|n| n.value.clone());
    o.finish();
    Some((path?, equals?))
}
