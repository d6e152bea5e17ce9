//! Requests that are the same every time, as the bytes that go out.
use super::endpoints::{prefix, proxy_headers};
use crate::job::{BaseUrl, Target};
use crate::journey::{Message, Outgoing, Plan};
use crate::transport::http1::{write_head, write_lines};

/// A body up to this size is kept, and sent, together with its head.
pub(super) const INLINE_BODY: u64 = 16 * 1024;

/// What is ready, by step and instance of its target.
pub(super) struct Requests(Vec<Vec<Ready>>);

/// One request, ready to be sent.
pub(super) struct Ready {
    /// Head, empty line, and the body if it is small.
    pub bytes: Box<[u8]>,
    /// Where the empty line begins: more headers may be put in there.
    pub head: usize,
}

impl Requests {
    pub fn new(plan: &Plan) -> Self {
        let mut all: Vec<Vec<Ready>> = Vec::new();
        for step in plan.workloads.iter().flat_map(|w| &w.steps) {
            let Message::Static(outgoing) = &step.message else { continue };
            let target = &plan.job.targets[step.target];
            let at = usize::from(step.id);
            all.resize_with(all.len().max(at + 1), Vec::new);
            all[at] = target.instances.iter().map(|i| Ready::new(outgoing, target, &i.url)).collect();
        }
        Self(all)
    }

    /// The request of a step for the instance at this place of its target.
    pub fn get(&self, step: u16, place: usize) -> Option<&Ready> {
        self.0.get(usize::from(step))?.get(place)
    }
}

impl Ready {
    fn new(outgoing: &Outgoing, target: &Target, url: &BaseUrl) -> Self {
        let mut bytes = Vec::new();
        write_head(outgoing, &prefix(target, url), &target.authority(url), &mut bytes);
        write_lines(proxy_headers(target, url), &mut bytes);
        let head = bytes.len();
        bytes.extend_from_slice(b"\r\n");
        if outgoing.body.len() <= INLINE_BODY {
            outgoing.body.chunks().for_each(|chunk| bytes.extend_from_slice(chunk));
        }
        Self { bytes: bytes.into_boxed_slice(), head }
    }
}
