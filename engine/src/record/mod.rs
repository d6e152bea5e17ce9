//! What is kept: row → checksummed log → Parquet.
//!
//! [`log`] is written on the hot path, one file a thread; [`reader`] reads it back, torn tails included;
//! [`compact`] merges all logs of a run into one sorted Parquet file.

pub mod batch;
pub mod compact;
pub mod log;
pub mod names;
pub mod reader;
pub mod row;
