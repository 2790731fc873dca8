//! Helpers for the tests on real servers.

// Each test program uses a part of them.
#![allow(dead_code, unused_imports)]

mod check;
mod child;
mod load;
mod panics;
mod quotas;
mod servers;
mod tally;
mod wait;

pub(crate) use check::{Checked, MAX_LATENCY, check, peek, used};
pub(crate) use child::ChildProcess;
pub(crate) use load::Load;
pub(crate) use quotas::{bucket_without_refill, log_without_expiry, options};
pub(crate) use servers::{
    cluster_options, connect, connect_recording, default_settings, failures, long_deadline, slot_of,
    standalone_options, start_connecting,
};
pub(crate) use tally::Tally;
pub(crate) use wait::{until, until_exact};
