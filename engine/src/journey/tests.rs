//! The order of steps, and what their requests become.
