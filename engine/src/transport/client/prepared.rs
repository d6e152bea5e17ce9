//! What is the same for every request of a step, made once for each instance of its target.
use crate::job::{BaseUrl, Protocol, Target};
use crate::journey::{Message, Outgoing, Plan, StepPlan};
use crate::transport::Call;

/// By step and instance of its target.
pub(super) struct Prepared<T>(Vec<Vec<T>>);

/// One request to one instance.
pub(super) struct Known<'a> {
    pub step: &'a StepPlan,
    pub outgoing: &'a Outgoing,
    pub target: &'a Target,
    pub url: &'a BaseUrl,
}

impl<T> Prepared<T> {
    /// For the steps whose requests are always the same, where `speaks` their target's protocol.
    pub fn new(plan: &Plan, speaks: impl Fn(Protocol) -> bool, make: impl Fn(Known<'_>) -> T) -> Self {
        let mut all: Vec<Vec<T>> = Vec::new();
        for step in plan.workloads.iter().flat_map(|w| &w.steps) {
            let target = &plan.job.targets[step.target];
            let Message::Static(outgoing) = &step.message else { continue };
            if !speaks(target.protocol) {
                continue;
            }
            let at = usize::from(step.id);
            all.resize_with(all.len().max(at + 1), Vec::new);
            let known = |url| Known { step, outgoing, target, url };
            all[at] = target.instances.iter().map(|instance| make(known(&instance.url))).collect();
        }
        Self(all)
    }

    /// What is ready for a call, at the instance at this place of its target.
    pub fn get(&self, call: &Call<'_>, place: usize) -> Option<&T> {
        // A request may be sent to another target than that of its step.
        if !call.is_static || call.target != call.step.target {
            return None;
        }
        self.0.get(usize::from(call.step.id))?.get(place)
    }
}
