//! A hot key on a real server that is far away: 20 ms for an answer, of which the way takes the most.

#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tollgate_redis::{RedisLimit, RedisOptions, RedisStore, StoreSettings};
use tollgate_store::{LimitOptions, OnFailure, Quota, Refusals, Source, Store};
use tollgate_testbed::{Fault, FaultProxy, RedisServer};

use support::{check, until};

const SPAN: Duration = Duration::from_secs(1);
/// A machine that stands still for some milliseconds makes a deadline pass. One run of these must be free of that.
const TURNS: usize = 8;

#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    checks: u64,
    passed: u64,
    fallbacks: u64,
    /// How long all of it took.
    took: Duration,
}

async fn run(store: &Arc<RedisStore>, limit: &RedisLimit, key: &str, per_second: u32) -> Figures {
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for number in 0..per_second {
        sleep_until(began + SPAN * number / per_second).await;
        let (store, limit, key) = (Arc::clone(store), limit.clone(), key.to_owned());
        tasks.spawn(async move { check(&store, &limit, &key).await });
    }
    let mut figures = Figures { took: began.elapsed(), ..Figures::default() };
    for checked in tasks.join_all().await {
        figures.checks += 1;
        figures.passed += u64::from(checked.passed);
        figures.fallbacks += u64::from(checked.source == Source::Fallback);
    }
    figures
}

/// Runs until one turn is free of what the machine did, and holds that to `expect`.
async fn hold(what: &str, store: &Arc<RedisStore>, limit: &RedisLimit, rate: u32, expect: impl Fn(&Figures) -> bool) {
    let mut seen = Vec::new();
    for turn in 0..TURNS {
        let figures = run(store, limit, &format!("{what}-{turn}"), rate).await;
        println!("{what}: {figures:?}");
        if figures.fallbacks == 0 {
            assert!(expect(&figures), "{what}: {figures:?}");
            return;
        }
        seen.push(figures);
    }
    panic!("{what}: the server did not answer some in any turn: {seen:?}");
}

async fn over_all_modes(round_trip_ms: u64) {
    let server = RedisServer::start(&[]).unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let options = RedisOptions::standalone(proxy.address().to_string());
    for on_failure in [OnFailure::Open, OnFailure::Closed, OnFailure::Local { share: (1, 2) }] {
        proxy.set(Fault::Pass);
        let settings = StoreSettings { deadline: Duration::from_millis(20), ..StoreSettings::default() };
        let store = Arc::new(RedisStore::connect(&options, settings, |_| {}).unwrap());
        until("the server is reached", || store.is_ready()).await;
        proxy.set(Fault::Delay(Duration::from_millis(round_trip_ms / 2)));
        let quota = Quota::token_bucket("100/s burst 100".parse().unwrap()).unwrap();
        let scope = format!("{on_failure:?}");
        let limit = store.limit(&scope, quota, LimitOptions { on_failure, refusals: Refusals::Brief }).unwrap();
        let under = format!("{round_trip_ms} ms, {on_failure:?}, under");
        hold(&under, &store, &limit, 95, |figures| figures.passed == figures.checks).await;
        let over = format!("{round_trip_ms} ms, {on_failure:?}, over");
        // A bucket that is full, and what comes while it is used.
        let most = |figures: &Figures| 100 + figures.took.as_millis() as u64 / 10 + 3;
        hold(&over, &store, &limit, 400, |figures| (190..=most(figures)).contains(&figures.passed)).await;
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
