//! `towtank-engine`: run a job, check one, compact its records, guard local processes.
fn main() {}
