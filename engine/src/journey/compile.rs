//! The compiled form of a whole job, shared by all load threads.
use super::{Message, Program, StepPlan, Templates};
use crate::job::{Job, Load, Problem, Request, Target, Workload};
use memchr::memmem::Finder;
use std::collections::BTreeMap;

/// A job, compiled.
pub struct Plan {
    /// As it was asked for.
    pub job: Job,
    /// In the order of the job.
    pub workloads: Vec<WorkloadPlan>,
    /// All templates.
    pub templates: Templates,
    /// Names of the steps by their ids.
    pub step_names: BTreeMap<u16, String>,
    /// First instance id of each target; ids are given in the order of targets and instances.
    pub first_instance: Vec<u16>,
}

/// A workload, compiled.
pub struct WorkloadPlan {
    /// The order of its steps.
    pub program: Program,
    /// Its requests.
    pub steps: Vec<StepPlan>,
    /// The longest timeout of any of its steps: the length of the drain.
    pub drain_ns: u64,
}

/// Problems that only compiling finds.
pub fn check(job: &Job) -> Vec<Problem> {
    compile(job).err().unwrap_or_default()
}

impl Plan {
    /// Compiles a job.
    pub fn new(job: Job) -> Result<Self, Vec<Problem>> {
        let (workloads, templates, step_names) = compile(&job)?;
        let mut next = 0;
        let first_instance = job.targets.iter().map(|target| {
            let first = next;
            next += target.instances.len() as u16;
            first
        });
        let first_instance = first_instance.collect();
        Ok(Self { job, workloads, templates, step_names, first_instance })
    }

    /// Names of all configured instances, in the order of their ids.
    pub fn instance_names(&self) -> impl Iterator<Item = &str> {
        self.job.targets.iter().flat_map(|t| &t.instances).map(|i| i.name.as_str())
    }
}

type Compiled = (Vec<WorkloadPlan>, Templates, BTreeMap<u16, String>);

fn compile(job: &Job) -> Result<Compiled, Vec<Problem>> {
    let mut templates = Templates::default();
    let mut names = BTreeMap::new();
    let mut problems = Vec::new();
    let mut workloads = Vec::new();
    for workload in &job.workloads {
        templates.open = matches!(workload.load, Load::Open(_));
        let mut builder =
            Builder { workload, targets: &job.targets, templates, names, problems, steps: Vec::new() };
        let program = Program::new(&workload.journey.steps, &mut |request| builder.place(request));
        let drain_ns = builder.steps.iter().map(|s| s.timeout_ns).max().unwrap_or(0);
        workloads.push(WorkloadPlan { program, steps: builder.steps, drain_ns });
        (templates, names, problems) = (builder.templates, builder.names, builder.problems);
    }
    if names.len() > 60_000 {
        problems.push(Problem { path: "$.workloads".into(), message: format!("{} steps", names.len()) });
    }
    if problems.is_empty() { Ok((workloads, templates, names)) } else { Err(problems) }
}

struct Builder<'a> {
    workload: &'a Workload,
    targets: &'a [Target],
    templates: Templates,
    names: BTreeMap<u16, String>,
    problems: Vec<Problem>,
    steps: Vec<StepPlan>,
}

impl Builder<'_> {
    fn place(&mut self, request: &Request) -> usize {
        let id = self.names.len() as u16;
        self.names.insert(id, request.name.clone());
        let message = match Message::new(request, &self.targets[request.target], &mut self.templates) {
            Ok(message) => message,
            Err(found) => {
                let problem = |(key, message): (String, String)| {
                    let path =
                        if key.is_empty() { request.at.clone() } else { format!("{}.{key}", request.at) };
                    Problem { path, message }
                };
                self.problems.extend(found.into_iter().map(problem));
                Message::Static(Vec::new())
            }
        };
        let method = request.method.as_str();
        self.steps.push(StepPlan {
            id,
            target: request.target,
            timeout_ns: request.timeout_us.unwrap_or(self.workload.timeout_us) * 1000,
            think: request.think.or(self.workload.journey.think),
            message,
            head: method == "HEAD",
            idempotent: matches!(method, "GET" | "HEAD" | "PUT" | "DELETE" | "OPTIONS" | "TRACE"),
            status: request.expect.status,
            contains: request.expect.contains.as_ref().map(|text| Finder::new(text.as_bytes()).into_owned()),
        });
        self.steps.len() - 1
    }
}
