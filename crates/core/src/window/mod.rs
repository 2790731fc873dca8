//! Algorithms that count what passed in a span of time.

pub(crate) mod fixed_window;
mod owed;
pub(crate) mod sliding_counter;
pub(crate) mod sliding_log;
