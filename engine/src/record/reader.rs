//! Reading logs back, torn tails included.
