//! The load engine of Towtank.
pub mod record;
pub mod guard;
