//! Which clients stand out, in tables of bounded size, and by which names they are told.

pub(in crate::observe) mod bursts;
pub(in crate::observe) mod client_names;
pub(in crate::observe) mod frequent_clients;
pub(in crate::observe) mod rule_clients;
pub(in crate::observe) mod tally;
