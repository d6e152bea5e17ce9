//! The ingress in front of the processes of a local deployment.
//!
//! [`dispatch`] decides, without a clock and without a network; [`serve`] asks it for every request ([`serve::admission`]),
//! carries requests to instances ([`serve::proxy`]), finds instances ready ([`serve::probe`]), and is told by whoever scales
//! them ([`serve::control`]).
pub mod area;
#[path = "../../engine/src/build_info.rs"]
pub mod build_info;
#[cfg(feature = "serve")]
pub mod cli;
pub mod dispatch;
pub mod events;
pub mod instances;
pub mod limits;
pub mod outcome;
pub mod picker;
pub mod protocol;
pub mod queue;
pub mod rate;
#[cfg(feature = "serve")]
pub mod serve;
