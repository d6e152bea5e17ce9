//! JSON → [`Job`]: top level, targets, limits.
use super::cursor::{Node, Object, Problems};
use super::{
    BaseUrl, Instance, Job, Limits, Load, MAX_DURATION_US, MAX_THREADS, Problem, Spread, Target, Workload,
    load, steps,
};
use serde_json::Value;
use std::collections::BTreeSet;

/// Parses and checks a whole job.
pub fn job(value: &Value) -> Result<Job, Vec<Problem>> {
    let problems = Problems::default();
    let job = Node::root(value, &problems).object().and_then(read_job);
    let mut problems = problems.into_vec();
    match job {
        Some(job) if problems.is_empty() => {
            problems = crate::journey::check(&job);
            if problems.is_empty() { Ok(job) } else { Err(problems) }
        }
        _ => Err(problems),
    }
}

/// None, or a problem was noted: fields are read to the end before anything is given up.
fn read_job(mut o: Object<'_>) -> Option<Job> {
    if o.required("version").and_then(|n| n.integer(0, u64::MAX)).is_some_and(|v| v != 1) {
        o.problem_at("version", "unknown version; this engine reads 1");
    }
    let run_id = o.required("run_id").and_then(|n| n.name());
    let seed = o.optional("seed").map_or(Some(0), |n| n.integer(0, u64::MAX));
    let output = o.required("output").and_then(|n| n.name());
    let threads = o.optional("threads").map_or(Some(1), |n| n.integer(1, MAX_THREADS));
    let nice = o.optional("nice").map(|n| read_nice(&n));
    let cpus = o.optional("cpus").map_or(Some(Vec::new()), |n| read_cpus(&n));
    let spread = o.optional("spread").map_or(Some(Spread::PerConnectionRandom), |n| n.choice(SPREADS));
    let instance_header = o.optional("instance_header").map(|n| {
        n.name().filter(|name| {
            let good = steps::is_token(name);
            if !good {
                n.problem("no valid header name");
            }
            good
        })
    });
    let limits = o.optional("limits").map_or(Some(Limits::default()), |n| n.object().and_then(read_limits));
    let targets = o.required("targets").and_then(|n| n.object()).map(|t| read_targets(&t));
    let target_names: Vec<_> = targets.iter().flatten().map(|t| t.name.clone()).collect();
    let threads_known = threads.unwrap_or(1);
    let limits_known = limits.unwrap_or_default();
    let context = Context { targets: &target_names, threads: threads_known, limits: limits_known };
    let workloads = o.required("workloads").and_then(|n| read_workloads(&n, &context));
    o.finish();
    Some(Job {
        run_id: run_id?,
        seed: seed?,
        output: output?.into(),
        threads: threads? as usize,
        nice,
        cpus: cpus?,
        spread: spread?,
        instance_header: instance_header.flatten(),
        targets: targets?,
        workloads: workloads?,
        limits: limits?,
    })
}

const SPREADS: &[(&str, Spread)] = &[
    ("per-connection-random", Spread::PerConnectionRandom),
    ("per-request-round-robin", Spread::PerRequestRoundRobin),
    ("least-outstanding", Spread::LeastOutstanding),
];

/// What a workload needs to know of the rest of the job.
pub struct Context<'a> {
    pub targets: &'a [String],
    pub threads: u64,
    pub limits: Limits,
}

fn read_nice(node: &Node<'_>) -> i32 {
    match node.value.as_i64() {
        Some(n) if (-20..=19).contains(&n) => n as i32,
        _ => {
            node.problem("a whole number from -20 to 19 is expected");
            0
        }
    }
}

fn read_cpus(node: &Node<'_>) -> Option<Vec<usize>> {
    node.array()?.iter().map(|n| n.integer(0, 1023).map(|cpu| cpu as usize)).collect()
}

fn read_limits(mut o: Object<'_>) -> Option<Limits> {
    let d = Limits::default();
    let mut read = |key, default, most| o.optional(key).map_or(Some(default), |n| n.integer(1, most));
    let body = read("max_body_bytes", d.max_body_bytes, u64::from(u32::MAX));
    let header = read("max_header_bytes", d.max_header_bytes, 16 << 20);
    let connections = read("max_connections", d.max_connections, 1_000_000);
    o.finish();
    Some(Limits { max_body_bytes: body?, max_header_bytes: header?, max_connections: connections? })
}

fn read_targets(o: &Object<'_>) -> Vec<Target> {
    let entries = o.entries();
    if entries.is_empty() || entries.len() > 255 {
        o.problem(format!("{} targets; allowed: 1 to 255", entries.len()));
    }
    let mut names = BTreeSet::new();
    let targets: Vec<_> =
        entries.iter().filter_map(|(name, node)| read_target(name, node, &mut names)).collect();
    if names.len() > 4096 {
        o.problem(format!("{} instances; at most 4096 are allowed", names.len()));
    }
    targets
}

fn read_target(name: &str, node: &Node<'_>, names: &mut BTreeSet<String>) -> Option<Target> {
    let mut o = node.object()?;
    let nodes = o.required("instances").and_then(|n| n.filled_array());
    let mut instances = Vec::new();
    for node in nodes.iter().flatten() {
        let Some(instance) = node.object().and_then(read_instance) else { continue };
        if !names.insert(instance.name.clone()) {
            node.problem(format!("a second instance named \"{}\"", instance.name));
        }
        instances.push(instance);
    }
    let headers = o.optional("headers").map_or(Some(Vec::new()), |n| steps::headers(&n));
    o.finish();
    let complete = nodes.is_some_and(|nodes| !nodes.is_empty() && nodes.len() == instances.len());
    complete.then_some(Target { name: name.to_owned(), instances, headers: headers? })
}

fn read_instance(mut o: Object<'_>) -> Option<Instance> {
    let name = o.required("name").and_then(|n| n.name());
    let url = o.required("url").and_then(|n| {
        let text = n.str()?;
        BaseUrl::parse(text).map_err(|message| n.problem(message)).ok()
    });
    o.finish();
    Some(Instance { name: name?, url: url? })
}

fn read_workloads(node: &Node<'_>, context: &Context<'_>) -> Option<Vec<Workload>> {
    let nodes = node.filled_array()?;
    if nodes.len() > 255 {
        node.problem("more than 255 workloads");
    }
    let mut names = BTreeSet::new();
    let mut workloads = Vec::new();
    for node in &nodes {
        let Some(workload) = node.object().and_then(|o| read_workload(o, context)) else { continue };
        if !names.insert(workload.name.clone()) {
            node.problem(format!("a second workload named \"{}\"", workload.name));
        }
        workloads.push(workload);
    }
    let peak: u64 = workloads.iter().map(peak_connections).sum();
    if peak > context.limits.max_connections {
        node.problem(format!(
            "up to {peak} users at once need as many connections; limits.max_connections allows {}",
            context.limits.max_connections
        ));
    }
    Some(workloads)
}

/// Closed users hold a connection each; open load is held below the limit by the engine itself.
fn peak_connections(workload: &Workload) -> u64 {
    match &workload.load {
        Load::Closed(closed) => {
            closed.stages.iter().map(|s| s.from.max(s.to)).fold(0.0, f64::max).ceil() as u64
        }
        Load::Open(_) => 0,
    }
}

fn read_workload(mut o: Object<'_>, context: &Context<'_>) -> Option<Workload> {
    let name = o.required("name").and_then(|n| n.name());
    let warmup_us = o.optional("warmup_us").map_or(Some(0), |n| n.integer(0, MAX_DURATION_US));
    // A row has 32 bits for µs, and MAX means "did not happen".
    let timeout_us = o.required("timeout_us").and_then(|n| n.integer(1, steps::MAX_TIMEOUT_US));
    let load = o.required("load").and_then(|n| n.object()).and_then(|n| load::read(n, context));
    let journey = o.required("journey").and_then(|n| n.object()).and_then(|n| steps::journey(n, context));
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
        load: load?,
        journey: journey?,
    })
}
