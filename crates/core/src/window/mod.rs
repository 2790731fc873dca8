//! Algorithms that count the admitted cost in a span of time.

pub(crate) mod fixed_window;
pub(crate) mod sliding_counter;
pub(crate) mod sliding_log;
mod usage;
