//! JSON → [`Job`]: top level, targets, limits.
use super::cursor::{Node, Object, Problems};
use super::{
    Dns, Job, Limits, MAX_THREADS, Problem, Spread, demand, feeds, part, steps_request, targets, workload,
};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Parses and checks a whole job.
pub fn job(value: &Value, folder: &Path) -> Result<Job, Vec<Problem>> {
    let problems = Problems::default();
    let job = Node::root(value, &problems).object().and_then(|o| read_job(o, folder));
    let mut problems = problems.into_vec();
    match job {
        Some(job) if problems.is_empty() => {
            problems = demand::check(&job);
            problems.extend(crate::journey::check(&job));
            if problems.is_empty() { Ok(job) } else { Err(problems) }
        }
        _ => Err(problems),
    }
}

/// None, or a problem was noted: fields are read to the end before anything is given up.
fn read_job(mut o: Object<'_>, folder: &Path) -> Option<Job> {
    if o.required("version").and_then(|n| n.integer(0, u64::MAX)).is_some_and(|v| v != 1) {
        o.problem_at("version", "unknown version; this engine reads 1");
    }
    let run_id = o.required("run_id").and_then(|n| n.name());
    let seed = o.optional("seed").map_or(Some(0), |n| n.integer(0, u64::MAX));
    let output = o.required("output").and_then(|n| n.name());
    let threads = o.optional("threads").map_or(Some(1), |n| n.integer(1, MAX_THREADS));
    let part = o.optional("part").map(|n| part::read(&n, threads.unwrap_or(1)));
    let nice = o.optional("nice").map(|n| read_nice(&n));
    let cpus = o.optional("cpus").map_or(Some(Vec::new()), |n| read_cpus(&n));
    let spread = o.optional("spread").map_or(Some(Spread::PerConnectionRandom), |n| n.choice(SPREADS));
    let instance_header = o.optional("instance_header").map(|n| {
        n.name().filter(|name| {
            let good = steps_request::is_token(name);
            if !good {
                n.problem("no valid header name");
            }
            good
        })
    });
    let traceparent = o.optional("traceparent").map_or(Some(0.0), |n| n.number(0.0, 1.0));
    let limits = o.optional("limits").map_or(Some(Limits::default()), |n| n.object().and_then(read_limits));
    let dns = o.optional("dns").map_or(Some(Dns::default()), |n| n.object().and_then(targets::read_dns));
    let targets = o.required("targets").and_then(|n| n.object()).map(|t| targets::read(&t, folder));
    let target_names: Vec<_> = targets.iter().flatten().map(|t| t.name.clone()).collect();
    let workers = part.flatten().map_or(1, |part| part.of as u64);
    let lanes_known = threads.unwrap_or(1) * workers;
    let limits_known = limits.unwrap_or_default();
    let files = Files { folder, read: RefCell::default() };
    let default_target = (target_names.len() == 1).then_some(0);
    let context = Context {
        targets: &target_names,
        lanes: lanes_known,
        limits: limits_known,
        files: &files,
        default_target,
    };
    let feeds =
        o.optional("feeds").and_then(|n| n.object()).map_or(Some(Vec::new()), |o| feeds::feeds(&o, &context));
    let workloads = o.required("workloads").and_then(|n| workload::read_all(&n, &context));
    o.finish();
    Some(Job {
        run_id: run_id?,
        seed: seed?,
        output: output?.into(),
        threads: threads? as usize,
        part: part.flatten(),
        nice,
        cpus: cpus?,
        spread: spread?,
        instance_header: instance_header.flatten(),
        traceparent: traceparent?,
        targets: targets?,
        dns: dns?,
        feeds: feeds?,
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
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub targets: &'a [String],
    /// Threads of all workers.
    pub lanes: u64,
    pub limits: Limits,
    pub files: &'a Files<'a>,
    /// Where a step goes that names no target.
    pub default_target: Option<usize>,
}

/// The files that a job names: each is read once.
pub struct Files<'a> {
    folder: &'a Path,
    read: RefCell<BTreeMap<PathBuf, Arc<[u8]>>>,
}

impl Files<'_> {
    /// Where a file is that is named relative to the job's folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// All bytes of a file, or a problem of the node that names it.
    pub fn bytes(&self, node: &Node<'_>) -> Option<Arc<[u8]>> {
        let path = self.path(&node.name()?);
        if let Some(bytes) = self.read.borrow().get(&path) {
            return Some(Arc::clone(bytes));
        }
        match read_file(&path, MAX_FILE_BYTES) {
            Ok(bytes) => {
                let bytes: Arc<[u8]> = bytes.into();
                self.read.borrow_mut().insert(path, Arc::clone(&bytes));
                Some(bytes)
            }
            Err(message) => {
                node.problem(message);
                None
            }
        }
    }
}

/// Bytes of a file that is a body.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// All bytes of a regular file of at most so many.
pub fn read_file(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let shown = path.display();
    let about = std::fs::metadata(path).map_err(|e| format!("cannot read {shown}: {e}"))?;
    // A pipe or a device may never come to an end.
    if !about.is_file() {
        return Err(format!("cannot read {shown}: it is no regular file"));
    }
    if about.len() > most {
        return Err(format!("{shown} has {} bytes; at most {most} are read", about.len()));
    }
    std::fs::read(path).map_err(|e| format!("cannot read {shown}: {e}"))
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
