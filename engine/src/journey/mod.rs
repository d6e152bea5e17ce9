//! What: a journey of the job, compiled so that an iteration costs next to nothing.
//!
//! Steps and choices become a flat list of operations (`program`), texts become literal bytes and the values between
//! them (`template`, `encode`, `draft`, `content`); every request that holds no template is rendered once (`message`).
pub mod answers;
mod compile;
mod content;
mod draft;
mod encode;
mod feeds;
mod fields;
mod message;
mod outgoing;
mod pause;
mod program;
mod session;
mod step;
mod template;
#[cfg(test)]
mod tests;
mod trace;

pub use compile::{Plan, WorkloadPlan, check};
pub use fields::Fields;
pub use message::{Draft, Message};
pub use minijinja::value::Value;
pub use outgoing::{Body, Outgoing};
pub use program::{Act, Program, Walk};
pub use session::Session;
pub use step::StepPlan;
pub use template::{Frame, Scope, Templates};
pub use trace::Traced;
