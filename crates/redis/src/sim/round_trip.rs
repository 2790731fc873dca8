//! A hot key on a healthy but distant server, in virtual time.

// Figures are for people.
#![allow(clippy::print_stdout)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use tollgate_core::{ChargeVerdict, Quota, max_admitted};
use tollgate_store::{Charge, Limit, LimitOptions, OnFailure, Refusals, Source, Store};

use super::shard::Shard;
use super::world::BEGAN_US;
use crate::call::Call;
use crate::store::{RedisStore, RedisStoreSettings};
use crate::transport::{Done, ShardId, Slot, Transport};

const SPAN: Duration = Duration::from_secs(4);
const MODES: [OnFailure; 3] = [OnFailure::Open, OnFailure::Closed, OnFailure::Local { share: (1, 2) }];

/// One server that replies to every call after the same round trip.
struct DistantTransport {
    shard: Arc<Mutex<Shard>>,
    started: Instant,
    round_trip: Duration,
}

impl Transport for DistantTransport {
    fn send(&self, _: Slot, call: Call, _: Instant, done: Done) {
        let (shard, started, half) = (Arc::clone(&self.shard), self.started, self.round_trip / 2);
        tokio::spawn(async move {
            sleep(half).await;
            let now_us = BEGAN_US + started.elapsed().as_micros() as u64;
            let reply = shard.lock().unwrap().execute(&call, now_us, &mut Vec::new());
            sleep(half).await;
            done.complete(Ok(reply));
        });
    }

    fn slot(&self, _: &[u8]) -> Slot {
        Slot(0)
    }

    fn shard(&self, _: Slot) -> ShardId {
        ShardId(0)
    }
}

/// The results of one run.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    checks: u64,
    passed: u64,
    /// Checks that were not decided by the server.
    fallbacks: u64,
    calls: u64,
    timeouts: u64,
    failed: u64,
}

/// Runs `per_second` checks a second, in bursts of `burst`.
fn run(round_trip_ms: u64, on_failure: OnFailure, per_second: u64, burst: u64, quota: Quota) -> Figures {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let started = Instant::now();
        let round_trip = Duration::from_millis(round_trip_ms);
        let transport = DistantTransport { shard: Arc::default(), started, round_trip };
        let settings = RedisStoreSettings { deadline: Duration::from_millis(20), ..RedisStoreSettings::default() };
        let store = Arc::new(RedisStore::for_test(transport, settings, Box::new(|_| {}), BEGAN_US * 1_000, None));
        let limit = store
            .limit("hot", quota, LimitOptions { on_failure, refusals: Refusals::Brief, lease: None, regional: false })
            .unwrap();
        let checks = per_second * SPAN.as_secs();
        let mut tasks = Vec::new();
        for number in 0..checks {
            let at = SPAN * (number - number % burst) as u32 / checks as u32;
            sleep_until(started + at).await;
            tasks.push(tokio::spawn(check(Arc::clone(&store), limit.clone())));
        }
        let mut figures = Figures { checks, ..Figures::default() };
        for task in tasks {
            let (passed, source, verdict) = task.await.unwrap();
            figures.passed += u64::from(passed);
            figures.fallbacks += u64::from(source == Source::Fallback);
            figures.failed += u64::from(verdict == ChargeVerdict::Unavailable);
        }
        let stats = store.stats();
        let timeouts = stats.failures.iter().find(|(cause, _)| *cause == "timeout");
        Figures { calls: stats.calls, timeouts: timeouts.map_or(0, |(_, count)| *count), ..figures }
    })
}

async fn check(store: Arc<RedisStore>, limit: Limit) -> (bool, Source, ChargeVerdict) {
    let charge = Charge::new(&limit, b"hot", 1);
    let outcome = store.check_all(&[charge]).await;
    (outcome.passed, outcome.source, outcome.decisions[0].verdict)
}

fn hundred_a_second() -> Quota {
    Quota::token_bucket("100/s burst 100".parse().unwrap()).unwrap()
}

/// Runs all failure modes and round trips, and prints the results.
fn over_all_distances(per_second: u64, burst: u64, expect: impl Fn(&Figures) -> bool) {
    let mut failures = Vec::new();
    for on_failure in MODES {
        for round_trip_ms in (2..=18).step_by(2) {
            let figures = run(round_trip_ms, on_failure, per_second, burst, hundred_a_second());
            println!("{round_trip_ms} ms, {on_failure:?}: {figures:?}");
            if figures.fallbacks > 0 || figures.timeouts > 0 || !expect(&figures) {
                failures.push((round_trip_ms, on_failure, figures));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:?}");
}

#[test]
fn hot_key_under_its_limit_is_never_refused_whatever_the_round_trip() {
    over_all_distances(95, 1, |figures| figures.passed == figures.checks);
    over_all_distances(95, 5, |figures| figures.passed == figures.checks);
}

#[test]
fn hot_key_over_its_limit_gets_exactly_its_limit_whatever_the_round_trip() {
    let max = max_admitted(&hundred_a_second(), SPAN.as_nanos() as u64).unwrap();
    for burst in [1, 7] {
        // At the end there may be tokens that were added after the last check.
        over_all_distances(300, burst, |figures| (max - 10..=max).contains(&figures.passed));
    }
}

/// Checks of a hot key share calls even if the server replies at once.
#[test]
fn checks_of_a_hot_key_on_a_fast_server_share_calls() {
    let plenty = Quota::token_bucket("100000/s".parse().unwrap()).unwrap();
    let figures = run(0, OnFailure::Closed, 20_000, 500, plenty);
    assert_eq!((figures.passed, figures.fallbacks), (figures.checks, 0), "{figures:?}");
    assert!(figures.checks / figures.calls >= 100, "{figures:?}");
}
