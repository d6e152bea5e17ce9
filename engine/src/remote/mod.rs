//! What every helper elsewhere is spoken to by: frames, and who is at the other end; docs/workers.md and docs/formats.md.
//!
//! Workers (`worker`) and agents (`agent`) listen behind the same door: a token, proofs of both sides, bounded frames.
pub mod door;
pub mod frame;
pub mod handshake;
pub mod pipe;
