//! The limiter, from outside, with a clock that the tests move.
#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod all_or_nothing;
mod blocked;
mod checking;
mod denied;
mod giving_back;
mod graduated;
mod keys;
mod permits;
mod policy_change;
mod state_size;
mod support;
mod together;
mod verdict_policy;
mod waiting;
mod warnings;
