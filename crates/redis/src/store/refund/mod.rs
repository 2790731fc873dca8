//! Calls that no check waits for: refunds, credits, settlements, renewals and resets.

pub(super) mod receipt;
pub(super) mod reset;
pub(super) mod send;
