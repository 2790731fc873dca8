//! A hot key on a real server that is far away: 20 ms for an answer, of which the way takes the most.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tollgate_redis::{RedisOptions, RedisStore, StoreSettings};
use tollgate_store::{Limit, LimitOptions, OnFailure, Quota, Refusals, Source, Store};
use tollgate_testbed::{Fault, FaultProxy, RedisServer};

use support::{check, until, until_exact};

const SPAN: Duration = Duration::from_millis(500);
const DEADLINE: Duration = Duration::from_millis(20);
/// A machine that stands still for some milliseconds makes deadlines pass. So many turns may be spoilt by that.
const TURNS: usize = 40;

#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    checks: u64,
    passed: u64,
    fallbacks: u64,
    /// How long all of it took.
    took: Duration,
    /// How long a call that joined no other took at most.
    longest_alone: Duration,
}

/// A hot key's store, and one whose calls travel alone and have all the time they need.
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

/// Runs until a turn is free of what the machine did, and holds that to `expect`.
async fn hold(what: &str, stores: &Stores, limit: &Limit, rate: u32, expect: impl Fn(&Figures) -> bool) {
    for turn in 0..TURNS {
        let figures = run(stores, limit, &format!("{what}-{turn}"), rate).await;
        println!("{what}: {figures:?}");
        if figures.fallbacks == 0 {
            assert!(expect(&figures), "{what}: {figures:?}");
            return;
        }
        // A check waits for another's call for a moment. If not even a call alone had that left, it says nothing.
        let is_quiet = figures.longest_alone < DEADLINE - Duration::from_millis(3);
        assert!(!is_quiet, "{what}: the server did not answer some: {figures:?}");
        until_exact(&stores.hot, limit, "rest").await;
    }
    panic!("{what}: the machine was too busy in every turn");
}

fn limit_of(store: &RedisStore, scope: &str, on_failure: OnFailure) -> Limit {
    let quota = Quota::token_bucket("100/s burst 100".parse().unwrap()).unwrap();
    store.limit(scope, quota, LimitOptions { on_failure, refusals: Refusals::Brief }).unwrap()
}

async fn connect(proxy: &FaultProxy, settings: StoreSettings) -> Arc<RedisStore> {
    let options = RedisOptions::standalone(proxy.address().to_string());
    let store = Arc::new(RedisStore::connect(&options, settings, |_| {}).unwrap());
    until("the server is reached", || store.is_ready()).await;
    store
}

async fn over_all_modes(round_trip_ms: u64) {
    let server = RedisServer::start(&[]).unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let patient = StoreSettings {
        deadline: Duration::from_secs(5),
        joins: false,
        remembers_refusals: false,
        ..StoreSettings::default()
    };
    for on_failure in [OnFailure::Open, OnFailure::Closed, OnFailure::Local { share: (1, 2) }] {
        proxy.set(Fault::Pass);
        let hot = connect(&proxy, StoreSettings { deadline: DEADLINE, ..StoreSettings::default() }).await;
        let stores = Stores { hot, alone: connect(&proxy, patient.clone()).await };
        proxy.set(Fault::Delay(Duration::from_millis(round_trip_ms / 2)));
        let limit = limit_of(&stores.hot, &format!("{on_failure:?}"), on_failure);
        let under = format!("{round_trip_ms} ms, {on_failure:?}, under");
        hold(&under, &stores, &limit, 95, |figures| figures.passed == figures.checks).await;
        let over = format!("{round_trip_ms} ms, {on_failure:?}, over");
        // A bucket that is full, and what comes while it is used.
        let most = |figures: &Figures| 100 + figures.took.as_millis() as u64 / 10 + 3;
        hold(&over, &stores, &limit, 600, |figures| (140..=most(figures)).contains(&figures.passed)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hot_key_behind_4_ms_is_neither_refused_nor_admitted_falsely() {
    over_all_modes(4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hot_key_behind_10_ms_is_neither_refused_nor_admitted_falsely() {
    over_all_modes(10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hot_key_behind_14_ms_is_neither_refused_nor_admitted_falsely() {
    over_all_modes(14).await;
}
