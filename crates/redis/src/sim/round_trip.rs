//! A hot key on a healthy server that is far away, in virtual time.

// Figures are for people.
#![allow(clippy::print_stdout)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use tollgate_core::{Quota, Verdict, most_admitted};
use tollgate_store::{Charge, Limit, LimitOptions, OnFailure, Refusals, Source, Store};

use super::shard::Shard;
use super::world::BEGAN_US;
use crate::call::Call;
use crate::store::{RedisStore, StoreSettings};
use crate::transport::{Done, ShardId, Slot, Transport};

const SPAN: Duration = Duration::from_secs(4);
const MODES: [OnFailure; 3] = [OnFailure::Open, OnFailure::Closed, OnFailure::Local { share: (1, 2) }];

/// One server, which answers every call after the same time.
struct Distant {
    shard: Arc<Mutex<Shard>>,
    began: Instant,
    round_trip: Duration,
}

impl Transport for Distant {
    fn send(&self, _: Slot, call: Call, _: Instant, done: Done) {
        let (shard, began, half) = (Arc::clone(&self.shard), self.began, self.round_trip / 2);
        tokio::spawn(async move {
            sleep(half).await;
            let now_us = BEGAN_US + began.elapsed().as_micros() as u64;
            let reply = shard.lock().unwrap().execute(&call, now_us, &mut Vec::new());
            sleep(half).await;
            done.hear(Ok(reply));
        });
    }

    fn slot(&self, _: &[u8]) -> Slot {
        Slot(0)
    }

    fn shard(&self, _: Slot) -> ShardId {
        ShardId(0)
    }
}

/// What became of the checks of one run.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    checks: u64,
    passed: u64,
    /// Not answered by the server.
    fallbacks: u64,
    calls: u64,
    timeouts: u64,
    failed: u64,
}

/// `together` checks at once, `per_second` in all.
fn run(round_trip_ms: u64, on_failure: OnFailure, per_second: u64, together: u64, quota: Quota) -> Figures {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let began = Instant::now();
        let round_trip = Duration::from_millis(round_trip_ms);
        let transport = Distant { shard: Arc::default(), began, round_trip };
        let settings = StoreSettings { deadline: Duration::from_millis(20), ..StoreSettings::default() };
        let store = Arc::new(RedisStore::for_test(transport, settings, Box::new(|_| {}), BEGAN_US * 1_000, None));
        let limit = store.limit("hot", quota, LimitOptions { on_failure, refusals: Refusals::Brief }).unwrap();
        let checks = per_second * SPAN.as_secs();
        let mut tasks = Vec::new();
        for number in 0..checks {
            let at = SPAN * (number - number % together) as u32 / checks as u32;
            sleep_until(began + at).await;
            tasks.push(tokio::spawn(check(Arc::clone(&store), limit.clone())));
        }
        let mut figures = Figures { checks, ..Figures::default() };
        for task in tasks {
            let (passed, source, verdict) = task.await.unwrap();
            figures.passed += u64::from(passed);
            figures.fallbacks += u64::from(source == Source::Fallback);
            figures.failed += u64::from(verdict == Verdict::NoRoom);
        }
        let stats = store.stats();
        let timeouts = stats.troubles.iter().find(|(cause, _)| *cause == "timeout");
        Figures { calls: stats.calls, timeouts: timeouts.map_or(0, |(_, count)| *count), ..figures }
    })
}

async fn check(store: Arc<RedisStore>, limit: Limit) -> (bool, Source, Verdict) {
    let charge = Charge::new(&limit, b"hot", 1);
    let outcome = store.decide(&[charge]).await;
    (outcome.passed, outcome.source, outcome.decisions[0].verdict)
}

fn hundred_a_second() -> Quota {
    Quota::token_bucket("100/s burst 100".parse().unwrap()).unwrap()
}

/// Runs all modes and distances, and shows what became of them.
fn over_all_distances(per_second: u64, together: u64, expect: impl Fn(&Figures) -> bool) {
    let mut broken = Vec::new();
    for on_failure in MODES {
        for round_trip_ms in (2..=18).step_by(2) {
            let figures = run(round_trip_ms, on_failure, per_second, together, hundred_a_second());
            println!("{round_trip_ms} ms, {on_failure:?}: {figures:?}");
            if figures.fallbacks > 0 || figures.timeouts > 0 || !expect(&figures) {
                broken.push((round_trip_ms, on_failure, figures));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:?}");
}

#[test]
fn hot_key_under_its_limit_is_never_refused_whatever_the_round_trip() {
    over_all_distances(95, 1, |figures| figures.passed == figures.checks);
    over_all_distances(95, 5, |figures| figures.passed == figures.checks);
}

#[test]
fn hot_key_over_its_limit_gets_exactly_its_limit_whatever_the_round_trip() {
    let most = most_admitted(&hundred_a_second(), SPAN.as_nanos() as u64).unwrap();
    for together in [1, 7] {
        // At the end some tokens may be left that came after the last check.
        over_all_distances(300, together, |figures| (most - 10..=most).contains(&figures.passed));
    }
}

/// A server that answers at once still gets checks of a hot key together.
#[test]
fn hot_key_on_a_fast_server_travels_together() {
    let plenty = Quota::token_bucket("100000/s".parse().unwrap()).unwrap();
    let figures = run(0, OnFailure::Closed, 20_000, 500, plenty);
    assert_eq!((figures.passed, figures.fallbacks), (figures.checks, 0), "{figures:?}");
    assert!(figures.checks / figures.calls >= 100, "{figures:?}");
}
