//! One hot key far over its limit, among many slow ones, on a cluster.

use std::time::Duration;

use tollgate_testbed::RedisCluster;

use crate::offered::{Offered, Report};
use crate::support::ChildProcess;
use crate::{BURST, LEAST_PERCENT, RATE};

const PROCESSES: u64 = 4;
/// The requests for the hot key, in multiples of its limit.
const TIMES: u64 = 50;
const SLOW_KEYS: u64 = 1_000;
const SPAN: Duration = Duration::from_secs(12);
const MEASURED_AT_LEAST: Duration = Duration::from_secs(10);
/// How many times fewer script runs leases need than exact mode, at least: on a busy machine exact mode makes fewer calls,
/// because each takes longer and more requests share it. On a machine with free processors it is more than 100.
const FEWER: u64 = 25;
/// The most script runs a second with leases, of each process: one in a pause, and some at the beginning.
const RUNS_PER_SECOND: u64 = 10;
/// A run in which the machine was too busy to offer the requests says nothing about how many are admitted.
const ATTEMPTS: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_of_a_hot_key_admit_its_limit_with_far_fewer_script_runs() {
    let cluster = RedisCluster::start().unwrap();
    let nodes: Vec<_> = cluster.addresses().iter().map(ToString::to_string).collect();
    let offered = |attempt: usize, is_leased: bool| Offered {
        nodes: nodes.join(","),
        is_cluster: true,
        scope: format!("hot-{attempt}-{is_leased}"),
        is_leased,
        per_second: TIMES * RATE / PROCESSES,
        span: SPAN,
        slow_keys: SLOW_KEYS,
        sends_at_once: false,
    };
    for attempt in 0..ATTEMPTS {
        let (exact, leased) = (run("exact", &offered(attempt, false)), run("leased", &offered(attempt, true)));
        assert_eq!(exact.log.leased(), 0);
        let (exact_runs, leased_runs) = (exact.calls, leased.calls + leased.lease_calls);
        println!(
            "{exact_runs} script runs exactly, {leased_runs} with leases: {} times fewer",
            exact_runs / leased_runs
        );
        assert!(leased_runs <= RUNS_PER_SECOND * PROCESSES * SPAN.as_secs(), "{leased_runs}");
        assert!(leased_runs * FEWER <= exact_runs, "{exact_runs} script runs exactly, {leased_runs} with leases");
        if was_offered(&leased) {
            return assert_rate_is_admitted(&leased);
        }
        println!("the machine was too busy to offer the requests: again");
    }
}

/// Asserts that the limit was admitted beside the burst, until the last admission. Tokens come in lots, so that some are
/// waiting at any other time.
fn assert_rate_is_admitted(report: &Report) {
    let begun_us = report.log.0.iter().map(|admission| admission.from_us).min().unwrap();
    let ended_us = report.log.0.iter().map(|admission| admission.until_us).max().unwrap();
    let span = Duration::from_micros(ended_us - begun_us);
    let (admitted, of_limit) = (report.log.count() - BURST, RATE * (ended_us - begun_us) / 1_000_000);
    println!("{admitted} of {of_limit} admitted in {span:?} beside the burst");
    assert!(span >= MEASURED_AT_LEAST, "nothing was admitted after {span:?}");
    assert!(admitted * 100 >= of_limit * LEAST_PERCENT, "{admitted} of {of_limit}");
}

/// Returns whether the requests were made in time, and nearly all of them were decided by leases or the servers.
fn was_offered(report: &Report) -> bool {
    let all = TIMES * RATE * MEASURED_AT_LEAST.as_secs();
    report.offered >= all && (report.failed + report.slow_failed) * 100 <= report.slow
}

/// Runs the processes, and holds what they admit to the limit.
fn run(name: &str, offered: &Offered) -> Report {
    let mut children: Vec<_> = (0..PROCESSES).map(|_| offered.start()).collect();
    children.iter_mut().for_each(ChildProcess::begin);
    let messages: Vec<_> = children.into_iter().flat_map(ChildProcess::receive_all).collect();
    let report = Report::of(&messages);
    let Report { log, offered, failed, calls, lease_calls, slow, slow_failed } = &report;
    let least_burst = log.least_burst(RATE);
    println!(
        "{name}: {offered} requests, {failed} not decided; {} admitted of which {} from leases, within a burst of \
         {least_burst} of {BURST}, the time of each known to {:?}; {calls} calls and {lease_calls} lease calls; \
         {slow} requests of slow keys, {slow_failed} not decided",
        log.count(),
        log.leased(),
        log.uncertainty(),
    );
    assert!(least_burst <= BURST, "{name}: {least_burst} over the rate");
    report
}
