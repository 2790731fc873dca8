//! Token leases on real servers: several instances log what they admit, and the merged log is held to the limit.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod admissions;
mod changes;
mod failover;
mod holders;
mod hot_key;
mod offered;
mod shared_key;
#[path = "../support/mod.rs"]
mod support;

use std::time::Duration;

use offered::Offered;
use support::ChildProcess;
use tollgate_store::{LimitOptions, OnFailure, Quota, Refusals};

/// The length of a generation of leases.
const GENERATION: Duration = Duration::from_secs(1);

/// The rate per second, and the burst, of the limit in all tests.
const RATE: u64 = 1_000;
const BURST: u64 = 1_000;

/// The most tokens of the limit that are leased, over all instances.
const MAX_LEASED: u64 = BURST / 2;

/// The least share of the limit, in percent, that tests in real time require: on a busy machine decisions are late. The
/// simulation requires 99 %.
const LEAST_PERCENT: u64 = 80;

fn bucket(per_second: u64, burst: u64) -> Quota {
    Quota::token_bucket(format!("{per_second}/s burst {burst}").parse().unwrap()).unwrap()
}

fn quota() -> Quota {
    bucket(RATE, BURST)
}

/// Returns options that admit nothing while the server fails.
fn options(is_leased: bool) -> LimitOptions {
    let lease = is_leased.then_some(GENERATION);
    LimitOptions { on_failure: OnFailure::Closed, refusals: Refusals::Brief, lease, regional: false }
}

/// Not a test: the work of a process that shares the limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Some(task) = ChildProcess::task() else { return };
    Offered::parse(&task).run_as_child().await;
}
