//! Top clients in tables of bounded size, and client IDs.

pub(in crate::observe) mod bursts;
pub(in crate::observe) mod client_names;
pub(in crate::observe) mod frequent_clients;
pub(in crate::observe) mod rule_clients;
pub(in crate::observe) mod tally;
