//! The compiled form of a whole job, shared by all load threads.
use super::answers::{self, Answers};
use super::draft::Line;
use super::encode::Encoding;
use super::feeds::RowPlan;
use super::message::Texts;
use super::program::{MAX_ONCE, Place};
use super::template::from_json;
use super::template::{Name, Text};
use super::trace::Trace;
use super::{Message, Outgoing, Program, Scope, StepPlan, Templates};
use crate::job::{Closed, Job, Journey, Load, Problem, Protocol, Request, SessionSpan, Workload};
use crate::transport::{OutcomeNames, Want, tls};
use rustls::ClientConfig;
use std::collections::BTreeMap;
use std::sync::Arc;

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
    /// Outcomes that the job itself names.
    pub outcomes: OutcomeNames,
    /// First instance id of each target; ids are given in the order of targets and instances.
    pub first_instance: Vec<u16>,
    /// Where redirects may lead.
    pub places: answers::redirect::Places,
    /// How TLS is done with each target that has an `https` URL.
    pub tls: Vec<Option<Arc<ClientConfig>>>,
}

/// A workload, compiled.
pub struct WorkloadPlan {
    /// The order of its steps.
    pub program: Program,
    /// Its requests.
    pub steps: Vec<StepPlan>,
    /// The longest timeout of any of its steps: the length of the drain.
    pub drain_ns: u64,
    /// The names that its templates can use.
    pub scope: Arc<Scope>,
    /// The rows that an iteration takes.
    pub rows: RowPlan,
    /// Whether every iteration is a session of its own.
    pub renews: bool,
    /// Headers of each target, for requests that a redirect leads to it; empty where none is followed.
    pub target_headers: Vec<Vec<(String, Line)>>,
    /// Where requests go.
    pub rotation: Rotation,
}

/// With rotating targets every request is there once for each of them, one after another.
#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    targets: usize,
    /// Open load: each arrival is an iteration.
    by_user: bool,
}

impl Rotation {
    fn new(workload: &Workload) -> Self {
        Self { targets: workload.rotate.len().max(1), by_user: matches!(workload.load, Load::Open(_)) }
    }

    /// Which of a request's copies an iteration takes.
    pub fn turn(self, user: u32, iteration: u32) -> usize {
        if self.targets == 1 {
            return 0;
        }
        (if self.by_user { user } else { iteration }) as usize % self.targets
    }
}

/// Problems that only compiling finds.
pub fn check(job: &Job) -> Vec<Problem> {
    let mut problems = compile(job).err().unwrap_or_default();
    problems.extend(tls::compile(job).err().unwrap_or_default());
    problems
}

impl Plan {
    /// Compiles a job.
    pub fn new(job: Job) -> Result<Self, Vec<Problem>> {
        let Compiled { workloads, templates, step_names, outcomes, .. } = compile(&job)?;
        let tls = tls::compile(&job)?;
        let mut next = 0;
        let first_instance = job.targets.iter().map(|target| {
            let first = next;
            next += target.instances.len() as u16;
            first
        });
        let first_instance = first_instance.collect();
        let places = answers::redirect::Places::new(&job.targets);
        Ok(Self { job, workloads, templates, step_names, outcomes, first_instance, places, tls })
    }

    /// Names of all configured instances, in the order of their ids.
    pub fn instance_names(&self) -> impl Iterator<Item = &str> {
        self.job.targets.iter().flat_map(|t| &t.instances).map(|i| i.name.as_str())
    }
}

/// What all workloads share, while they are compiled.
#[derive(Default)]
struct Compiled {
    workloads: Vec<WorkloadPlan>,
    templates: Templates,
    step_names: BTreeMap<u16, String>,
    outcomes: OutcomeNames,
    problems: Vec<Problem>,
}

fn compile(job: &Job) -> Result<Compiled, Vec<Problem>> {
    let mut compiled = Compiled::default();
    for (place, workload) in job.workloads.iter().enumerate() {
        let at = format!("$.workloads[{place}]");
        compiled.workload(job, workload, &at);
    }
    if compiled.step_names.len() > 60_000 {
        compiled.problem(
            "$.workloads",
            format!("{} steps; at most 60000 are possible", compiled.step_names.len()),
        );
    }
    if compiled.problems.is_empty() { Ok(compiled) } else { Err(compiled.problems) }
}

impl Compiled {
    fn problem(&mut self, path: &str, message: impl Into<String>) {
        self.problems.push(Problem { path: path.to_owned(), message: message.into() });
    }

    fn workload(&mut self, job: &Job, workload: &Workload, at: &str) {
        self.check_names(&workload.journey);
        let scope = Arc::new(self.scope(job, workload, at));
        self.templates.forget_feeds();
        let mut builder = Builder { job, workload, scope: &scope, shared: self, steps: Vec::new() };
        let program = Program::new(&workload.journey.steps, &mut builder);
        let steps = builder.steps;
        if steps.is_empty() {
            self.problem(&format!("{at}.journey.steps"), "no request in any of the steps");
        }
        if program.onces() > MAX_ONCE {
            let message = format!("{} once steps; at most {MAX_ONCE} are possible", program.onces());
            self.problem(&format!("{at}.journey.steps"), message);
        }
        let rows = RowPlan::new(job, workload, self.templates.used_feeds());
        let rows = rows.unwrap_or_else(|message| {
            self.problem(&format!("{at}.journey"), message);
            RowPlan::default()
        });
        let target_headers = self.target_headers(job, &steps, &scope);
        let drain_ns = steps.iter().map(|s| s.timeout_ns).max().unwrap_or(0);
        let own = matches!(workload.load, Load::Closed(Closed { session: SessionSpan::User, .. }));
        self.workloads.push(WorkloadPlan {
            program,
            steps,
            drain_ns,
            scope,
            rows,
            renews: !own,
            target_headers,
            rotation: Rotation::new(workload),
        });
    }

    /// In the records a step is known by its name alone.
    fn check_names(&mut self, journey: &Journey) {
        let mut first = BTreeMap::new();
        journey.each_request(&mut |request| {
            let place = first.entry(request.name.clone()).or_insert_with(|| request.at.clone());
            if *place != request.at {
                let message = format!(
                    "a second step named \"{}\"; the first is {place}: each step of a workload needs a name of its own",
                    request.name
                );
                self.problem(&format!("{}.name", request.at), message);
            }
        });
    }

    /// What is wrong with a header is told where it stands.
    fn target_headers(
        &mut self,
        job: &Job,
        steps: &[StepPlan],
        scope: &Arc<Scope>,
    ) -> Vec<Vec<(String, Line)>> {
        if steps.iter().all(|step| step.answers.redirects == 0) {
            return Vec::new();
        }
        let mut all = Vec::new();
        for target in &job.targets {
            let mut headers = Vec::new();
            for (name, value) in &target.headers {
                let mut line = Line::default();
                match self.templates.text(value, scope) {
                    Ok(text) => line.text(text, Encoding::Header),
                    Err(message) => self.problem(&format!("{}.headers.{name}", target.at), message),
                }
                headers.push((name.clone(), line));
            }
            all.push(headers);
        }
        all
    }

    /// All names of a workload: a capture is known to every step, since which one comes first is seen at run time.
    fn scope(&mut self, job: &Job, workload: &Workload, at: &str) -> Scope {
        let mut scope = Scope::new(&job.run_id, matches!(workload.load, Load::Open(_)), &job.feeds);
        for (name, value) in &workload.journey.variables {
            if let Err(message) = scope.add(name, Name::Constant(from_json(value))) {
                self.problem(&format!("{at}.journey.variables.{name}"), message);
            }
        }
        let mut slots = 0;
        workload.journey.each_request(&mut |request| {
            for capture in &request.capture {
                match scope.add(&capture.name, Name::Slot(slots)) {
                    Ok(()) => slots += 1,
                    Err(message) => self.problem(&capture.at, message),
                }
            }
        });
        scope
    }
}

/// Compiles the steps of one workload.
struct Builder<'a> {
    job: &'a Job,
    workload: &'a Workload,
    scope: &'a Arc<Scope>,
    shared: &'a mut Compiled,
    steps: Vec<StepPlan>,
}

impl Place for Builder<'_> {
    fn request(&mut self, request: &Request) -> usize {
        let first = self.steps.len();
        let Some((target, others)) = self.workload.rotate.split_first() else {
            self.place(request);
            return first;
        };
        self.place(&Request { target: *target, ..request.clone() });
        // What is wrong with it has been said; its copies for the other targets are wrong in the same way.
        let said = self.shared.problems.len();
        for target in others {
            self.place(&Request { target: *target, ..request.clone() });
        }
        self.shared.problems.truncate(said);
        first
    }

    fn condition(&mut self, source: &str, at: &str) -> Text {
        self.shared.templates.text(source, self.scope).unwrap_or_else(|message| {
            self.shared.problem(&format!("{at}.condition"), message);
            Text::Fixed(String::new())
        })
    }
}

impl Builder<'_> {
    /// Adds a request, for one target.
    fn place(&mut self, request: &Request) {
        let id = self.shared.step_names.len() as u16;
        self.shared.step_names.insert(id, request.name.clone());
        if request.grpc && self.job.targets[request.target].protocol == Protocol::Http1 {
            let name = &self.job.targets[request.target].name;
            let message = format!("a call goes over HTTP/2; give the target \"{name}\" the protocol http2");
            self.shared.problem(&format!("{}.grpc", request.at), message);
        }
        let message = self.message(request);
        let answers = self.answers(request);
        let (job, workload) = (self.job, self.workload);
        let cold = workload.cold.as_ref().map_or(Want::default(), answers::cold::want);
        let want = answers.want(workload.journey.cookies).or(cold);
        let has_cookie = workload.journey.cookies && message.sends("cookie");
        let share = request.traceparent.unwrap_or(job.traceparent);
        let traced = |trace: &Trace| Some(*trace).filter(|_| !message.sends("traceparent"));
        let trace = Trace::new(share, &job.run_id, &workload.name, &request.name);
        self.steps.push(StepPlan {
            id,
            target: request.target,
            timeout_ns: request.timeout_us.unwrap_or(workload.timeout_us) * 1000,
            think: request.think.or(workload.journey.think),
            trace: trace.as_ref().and_then(traced),
            expect_continue: request.expect_continue,
            message,
            want,
            answers,
            has_cookie,
        });
    }

    fn answers(&mut self, request: &Request) -> Answers {
        let slot = |name: &str| match self.scope.get(name) {
            Some(Name::Slot(slot)) => Some(*slot),
            _ => None,
        };
        Answers::new(request, &mut self.shared.outcomes, slot).unwrap_or_else(|problems| {
            self.shared.problems.extend(problems);
            Answers::default()
        })
    }

    fn message(&mut self, request: &Request) -> Message {
        let texts = Texts::new(&mut self.shared.templates, self.scope);
        Message::new(request, &self.job.targets[request.target], texts).unwrap_or_else(|found| {
            for (key, message) in found {
                let path = if key.is_empty() { request.at.clone() } else { format!("{}.{key}", request.at) };
                self.shared.problem(&path, message);
            }
            Message::Static(Outgoing::default())
        })
    }
}
