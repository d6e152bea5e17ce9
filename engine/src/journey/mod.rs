//! What: a journey of the job, compiled so that an iteration costs next to nothing.
//!
//! Steps and choices become a flat list of operations; every request that holds no template is rendered once, as bytes,
//! for each instance that it may go to.
mod compile;
mod message;
mod pause;
mod program;
mod template;

pub use compile::{Plan, WorkloadPlan, check};
pub use message::{Message, Rendered};
pub use program::{Program, StepPlan};
pub use template::{Templates, Variables};
