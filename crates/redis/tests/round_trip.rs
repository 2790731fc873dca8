//! A hot key on a real server with a long round trip: most of the deadline of 20 ms is spent on the network.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tollgate_redis::{RedisOptions, RedisStore, RedisStoreSettings};
use tollgate_store::{Limit, LimitOptions, OnFailure, Quota, Refusals, Source, Store};
use tollgate_testbed::{Fault, FaultProxy, RedisServer};

use support::{check, until, until_exact};

const SPAN: Duration = Duration::from_millis(500);
const DEADLINE: Duration = Duration::from_millis(20);
/// The maximum number of attempts. A machine that stalls for some milliseconds makes calls miss their deadlines, which
/// invalidates an attempt.
const MAX_ATTEMPTS: usize = 40;

#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    checks: u64,
    passed: u64,
    fallbacks: u64,
    /// The duration of the run.
    took: Duration,
    /// The longest duration of a call that was not joined with others.
    longest_alone: Duration,
}

/// The store with the hot key, and one whose calls are not joined and have a long deadline.
struct Stores {
    hot: Arc<RedisStore>,
    alone: Arc<RedisStore>,
}

async fn run(stores: &Stores, limit: &Limit, key: &str, per_second: u32) -> Figures {
    let began = Instant::now();
    let (mut tasks, mut lone) = (JoinSet::new(), JoinSet::new());
    let lone_limit = limit_of(&stores.alone, "alone", OnFailure::Closed);
    let count = per_second / 2;
    for number in 0..count {
        sleep_until(began + SPAN * number / count).await;
        let (store, limit, key) = (Arc::clone(&stores.hot), limit.clone(), key.to_owned());
        tasks.spawn(async move { check(&store, &limit, &key).await });
        let (store, limit) = (Arc::clone(&stores.alone), lone_limit.clone());
        lone.spawn(async move { check(&store, &limit, "alone").await.took });
    }
    let took = began.elapsed();
    let longest_alone = lone.join_all().await.into_iter().max().unwrap_or_default();
    let mut figures = Figures { took, longest_alone, ..Figures::default() };
    for checked in tasks.join_all().await {
        figures.checks += 1;
        figures.passed += u64::from(checked.passed);
        figures.fallbacks += u64::from(checked.source == Source::Fallback);
    }
    figures
}

/// Repeats the run until the machine did not disturb it, and asserts that its figures satisfy `expect`.
async fn assert_figures(what: &str, stores: &Stores, limit: &Limit, rate: u32, expect: impl Fn(&Figures) -> bool) {
    for attempt in 0..MAX_ATTEMPTS {
        let figures = run(stores, limit, &format!("{what}-{attempt}"), rate).await;
        println!("{what}: {figures:?}");
        if figures.fallbacks == 0 {
            assert!(expect(&figures), "{what}: {figures:?}");
            return;
        }
        // A check may first wait briefly for the call of another check. If not even a lone call left time for that, the
        // run proves nothing.
        let is_quiet = figures.longest_alone < DEADLINE - Duration::from_millis(3);
        assert!(!is_quiet, "{what}: some checks got no reply in time: {figures:?}");
        until_exact(&stores.hot, limit, "rest").await;
    }
    panic!("{what}: the machine was too busy in every attempt");
}

fn limit_of(store: &RedisStore, scope: &str, on_failure: OnFailure) -> Limit {
    let quota = Quota::token_bucket("100/s burst 100".parse().unwrap()).unwrap();
    store
        .limit(scope, quota, LimitOptions { on_failure, refusals: Refusals::Brief, lease: None, regional: false })
        .unwrap()
}

async fn connect(proxy: &FaultProxy, settings: RedisStoreSettings) -> Arc<RedisStore> {
    let options = RedisOptions::standalone(proxy.address().to_string());
    let store = Arc::new(RedisStore::connect(&options, settings, |_| {}).unwrap());
    until("the server is reached", || store.is_ready()).await;
    store
}

async fn hot_key_in_all_failure_modes(round_trip_ms: u64) {
    let server = RedisServer::start(&[]).unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let long_deadline = RedisStoreSettings {
        deadline: Duration::from_secs(5),
        coalesces_checks: false,
        caches_refusals: false,
        ..RedisStoreSettings::default()
    };
    for on_failure in [OnFailure::Open, OnFailure::Closed, OnFailure::Local { share: (1, 2) }] {
        proxy.set(Fault::Pass);
        let hot = connect(&proxy, RedisStoreSettings { deadline: DEADLINE, ..RedisStoreSettings::default() }).await;
        let stores = Stores { hot, alone: connect(&proxy, long_deadline.clone()).await };
        proxy.set(Fault::Delay(Duration::from_millis(round_trip_ms / 2)));
        let limit = limit_of(&stores.hot, &format!("{on_failure:?}"), on_failure);
        let under = format!("{round_trip_ms} ms, {on_failure:?}, under");
        assert_figures(&under, &stores, &limit, 95, |figures| figures.passed == figures.checks).await;
        let over = format!("{round_trip_ms} ms, {on_failure:?}, over");
        // A full bucket, and the tokens refilled during the run.
        let most = |figures: &Figures| 100 + figures.took.as_millis() as u64 / 10 + 3;
        assert_figures(&over, &stores, &limit, 600, |figures| (140..=most(figures)).contains(&figures.passed)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hot_key_at_4_ms_round_trip_is_limited_exactly() {
    hot_key_in_all_failure_modes(4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hot_key_at_10_ms_round_trip_is_limited_exactly() {
    hot_key_in_all_failure_modes(10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hot_key_at_14_ms_round_trip_is_limited_exactly() {
    hot_key_in_all_failure_modes(14).await;
}
