//! When: load models → intended offsets in ns from the start of the load.
//!
//! No clock and no I/O here: everything can be tested without time passing, and every thread of a run computes the
//! same global schedule from the same seed.
mod arrivals;
mod curve;
mod population;
mod scattered;
mod sequence;
mod shape;

pub use arrivals::{Arrival, ArrivalPlan, Shard};
pub use curve::Curve;
pub use population::Population;
