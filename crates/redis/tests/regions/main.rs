//! Regions on real servers: the instances of all regions log what they admit, and for each key the merged log is held to
//! the limit.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod admitted;
mod busy;

mod failures;
mod global_faults;
mod instance;
mod kinds;
mod limits;
mod load;
mod membership;
mod servers;
#[path = "../support/mod.rs"]
mod support;

use std::time::Duration;

use support::ChildProcess;

/// The length of an epoch.
const EPOCH: Duration = Duration::from_secs(1);

/// The regions and their weights.
const REGIONS: [(&str, u32); 3] = [("eu", 50), ("us", 30), ("ap", 20)];
const EU: usize = 0;
const US: usize = 1;
const AP: usize = 2;

/// Far longer than the few epochs that anything takes.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Not a test: an instance in a process of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Some(task) = ChildProcess::task() else { return };
    instance::run_as_child(&task).await;
}
