//! What is kept: row → checksummed log → Parquet.
pub mod row;
