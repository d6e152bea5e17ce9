//! What is made of an answer: checks, captures, cookies, redirects. Pure functions over what came, compiled once for
//! each step.
mod capture;
mod check;
pub mod cold;
mod cookie;
pub mod decode;
pub mod form;
mod html;
mod jar;
pub mod json;
mod json_node;
mod judge;
pub mod redirect;

pub use jar::{Jar, Place, Site};
pub use judge::{Answers, Workspace};
