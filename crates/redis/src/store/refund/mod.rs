//! Calls that no check waits for: refunds, settlements, renewals and resets.

pub(super) mod receipt;
pub(super) mod reset;
pub(super) mod send;
