//! What the tests on real servers share.

// Each test program uses a part of it.
#![allow(dead_code, unused_imports)]

mod check;
mod child;
mod load;
mod panics;
mod patience;
mod quotas;
mod servers;
mod tally;

pub(crate) use check::{Checked, PROMPTLY, check, look, used};
pub(crate) use child::ChildProcess;
pub(crate) use load::Load;
pub(crate) use patience::{until, until_exact};
pub(crate) use quotas::{endless_bucket, endless_log, options};
pub(crate) use servers::{
    begin_to_connect, cluster_options, connect, eager, patient, slot_of, standalone_options, troubles,
};
pub(crate) use tally::Tally;
