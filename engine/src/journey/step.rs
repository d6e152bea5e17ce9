//! A request of a journey, compiled.
use super::Message;
use super::answers::Answers;
use super::trace::Trace;
use crate::job::Pause;
use crate::transport::Want;

/// One request, ready to be sent.
pub struct StepPlan {
    /// Id in the rows.
    pub id: u16,
    /// Index of the target.
    pub target: usize,
    /// Longest time from start to end.
    pub timeout_ns: u64,
    /// The pause after it.
    pub think: Option<Pause>,
    /// What is sent.
    pub message: Message,
    /// Whether some of its requests carry a `traceparent`.
    pub trace: Option<Trace>,
    /// Whether the server is asked before the body is sent.
    pub expect_continue: bool,
    /// What has to be kept of its answers.
    pub want: Want,
    /// What is expected of its answers, and what is taken out of them.
    pub answers: Answers,
    /// It has a `cookie` header of its own, to which those of the jar are added.
    pub has_cookie: bool,
}
