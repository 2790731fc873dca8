//! The limiter, from outside, with a clock that the tests move.
#![allow(clippy::unwrap_used, reason = "a helper that fails ends its test")]

mod all_or_nothing;
mod blocked;
mod budgets;
mod checking;
mod denied;
mod escalation;
mod joint;
mod keys;
mod per_key;
mod permits;
mod policy_change;
mod refunds;
mod regions_in_memory;
mod state_size;
mod support;
mod verdict_policy;
mod waiting;
mod warnings;
