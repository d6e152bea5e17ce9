//! The engine as one of several workers: takes its part of a job over a connection, carries it out, hands its logs over.
//!
//! docs/workers.md. The load itself is a process of its own, `towtank-engine run`, whose lifeline this one holds: when the
//! connection is lost, the lifeline ends, and with it the load, in order. What was recorded is kept until it was fetched.
mod carrier;
mod intake;
mod logs;
mod orders;
mod output;
pub mod serve;
mod session;
