//! Credits, resets and overrides on real servers.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::time::Duration;

use tollgate_redis::RedisStore;
use tollgate_store::{
    Limit, LimitOptions, MAX_OVERRIDES, OnFailure, Quota, Rate, Refusals, Source, Store, StoreAdmin, StoredOverride,
};
use tollgate_testbed::{RedisCluster, RedisServer};

use support::{check, cluster_options, connect, long_deadline, options, standalone_options, until, used};

fn rate(text: &str) -> Rate {
    text.parse().unwrap()
}

fn admin(store: &RedisStore) -> &dyn StoreAdmin {
    store.admin().unwrap()
}

/// Creates a limit whose refusals are cached until they end, as those of a block are.
fn limit_with_cached_refusals(store: &RedisStore, scope: &str) -> Limit {
    let quota = Quota::token_bucket(rate("1/day")).unwrap();
    let options = LimitOptions { on_failure: OnFailure::Open, refusals: Refusals::Final, lease: None, regional: false };
    store.limit(scope, quota, options).unwrap()
}

fn override_for_an_hour(store: &RedisStore, name: &str, text: &str) -> StoredOverride {
    StoredOverride { name: name.into(), text: text.into(), until_ns: store.now_ns() + 3_600_000_000_000 }
}

/// Exhausts a key, until its refusal comes from the cache.
async fn check_until_refusal_is_cached(store: &RedisStore, limit: &Limit, key: &str) {
    for _ in 0..1_000 {
        if check(store, limit, key).await.source == Source::Cached {
            return;
        }
    }
    panic!("no refusal is cached: {:?}", store.stats());
}

/// Checks until a check passes. A refusal that stays cached would last a day.
async fn check_until_it_passes(store: &RedisStore, limit: &Limit, key: &str) {
    for _ in 0..5_000 {
        if check(store, limit, key).await.passed {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("the key is still refused: {:?}", store.stats());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credit_reduces_usage_but_not_below_zero() {
    let server = RedisServer::start(&[]).unwrap();
    let redis = standalone_options(server.address());
    let (one, other) = (connect(&redis, long_deadline()).await, connect(&redis, long_deadline()).await);
    // A window so long that it does not end during the test.
    let ten = rate("10 per 13140 days");
    for (scope, quota) in [
        ("bucket", Quota::token_bucket(ten)),
        ("leaky", Quota::leaky_bucket(ten)),
        ("window", Quota::fixed_window(ten)),
        ("counter", Quota::sliding_window_counter(ten)),
        ("log", Quota::sliding_window_log(ten)),
    ] {
        let limit = |store: &RedisStore| store.limit(scope, quota.unwrap(), options(OnFailure::Closed)).unwrap();
        let (of_one, of_other) = (limit(&one), limit(&other));
        one.credit(&of_one, b"ann", 3);
        assert_eq!(used(&one, &of_one, "ann").await, 0, "{scope}: a credit does not exceed the limit");
        for _ in 0..5 {
            assert!(check(&other, &of_other, "ann").await.passed);
        }
        one.credit(&of_one, b"ann", 3);
        assert_eq!(used(&one, &of_one, "ann").await, 2, "{scope}");
        one.credit(&of_one, b"ann", 1_000);
        assert_eq!(used(&one, &of_one, "ann").await, 0, "{scope}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resets_and_overrides_reach_all_instances_of_a_cluster() {
    let cluster = RedisCluster::start().unwrap();
    let redis = cluster_options(&cluster);
    let (one, other) = (connect(&redis, long_deadline()).await, connect(&redis, long_deadline()).await);
    for key in ["ann", "ben", "cid", "dan", "eve", "fay"] {
        let (of_one, of_other) =
            (limit_with_cached_refusals(&one, "block"), limit_with_cached_refusals(&other, "block"));
        check_until_refusal_is_cached(&other, &of_other, key).await;
        admin(&one).reset(&[(&of_one, key.as_bytes())]).await.unwrap();
        check_until_it_passes(&other, &of_other, key).await;
    }
    admin(&one).set_override(override_for_an_hour(&one, "a", "text")).await.unwrap();
    until("the other instance has the override", || admin(&other).overrides().read().1.len() == 1).await;
    admin(&other).remove_override("a").await.unwrap();
    until("the override is removed", || admin(&one).overrides().read().1.is_empty()).await;
}

/// Overrides are lost with the server's data, as all counters are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overrides_and_cached_refusals_end_when_the_server_lost_its_data() {
    let mut server = RedisServer::start(&[]).unwrap();
    let redis = standalone_options(server.address());
    let (one, other) = (connect(&redis, long_deadline()).await, connect(&redis, long_deadline()).await);
    admin(&one).set_override(override_for_an_hour(&one, "a", "text")).await.unwrap();
    until("the other instance has the override", || admin(&other).overrides().read().1.len() == 1).await;
    let limit = limit_with_cached_refusals(&other, "block");
    check_until_refusal_is_cached(&other, &limit, "ann").await;
    server.kill().unwrap();
    server.restart().unwrap();
    until("there are no overrides", || admin(&other).overrides().read().1.is_empty()).await;
    check_until_it_passes(&other, &limit, "ann").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn override_over_the_maximum_is_an_error_but_replacing_one_is_not() {
    let server = RedisServer::start(&[]).unwrap();
    let one = connect(&standalone_options(server.address()), long_deadline()).await;
    for number in 0..MAX_OVERRIDES {
        admin(&one).set_override(override_for_an_hour(&one, &number.to_string(), "200/min")).await.unwrap();
    }
    assert!(admin(&one).set_override(override_for_an_hour(&one, "one more", "200/min")).await.is_err());
    admin(&one).set_override(override_for_an_hour(&one, "7", "300/min")).await.unwrap();
    let overrides = admin(&one).overrides().read().1;
    assert_eq!((overrides.len(), &*overrides[MAX_OVERRIDES - 1].text), (MAX_OVERRIDES, "300/min"));
}

/// Measures how long it takes until another instance applies a reset.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn reset_propagation_time() {
    let server = RedisServer::start(&[]).unwrap();
    let redis = standalone_options(server.address());
    let (one, other) = (connect(&redis, long_deadline()).await, connect(&redis, long_deadline()).await);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (of_one, of_other) = (limit_with_cached_refusals(&one, "block"), limit_with_cached_refusals(&other, "block"));
    let mut took = Vec::new();
    for _ in 0..200 {
        check_until_refusal_is_cached(&other, &of_other, "ann").await;
        admin(&one).reset(&[(&of_one, b"ann")]).await.unwrap();
        let begun = tokio::time::Instant::now();
        while !check(&other, &of_other, "ann").await.passed {
            assert!(begun.elapsed() < Duration::from_secs(5));
            tokio::task::yield_now().await;
        }
        took.push(begun.elapsed());
    }
    took.sort_unstable();
    println!("after the reset returned: median {:?}, 99th {:?}, longest {:?}", took[100], took[198], took[199]);
}
