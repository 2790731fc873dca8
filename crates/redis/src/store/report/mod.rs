//! What an operator is told: counters, durations and events.

pub(super) mod durations;
pub(super) mod first_contact;
pub(super) mod server_watch;
pub(super) mod stats;
pub(super) mod throttle;
