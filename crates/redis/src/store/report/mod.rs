//! Reports to the operator: counters, durations and events.

pub(super) mod client_events;
pub(super) mod durations;
pub(super) mod first_contact;
pub(super) mod health_checks;
pub(super) mod region_events;
pub(super) mod stats;
pub(super) mod throttle;
