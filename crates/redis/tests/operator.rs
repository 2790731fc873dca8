//! What is given back without a receipt, what is reset and what is put up for
//! everybody, on real servers.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::time::Duration;

use tollgate_redis::RedisStore;
use tollgate_store::{
    Limit, LimitOptions, MAX_OVERRIDES, OnFailure, Quota, Rate, Refusals, Source, Store, StoreAdmin, StoredOverride,
};
use tollgate_testbed::{RedisCluster, RedisServer};

use support::{check, cluster_options, connect, options, patient, standalone_options, until, used};

fn rate(text: &str) -> Rate {
    text.parse().unwrap()
}

fn admin(store: &RedisStore) -> &dyn StoreAdmin {
    store.admin().unwrap()
}

/// A limit whose refusals are believed to their end, as those of a block are.
fn lasting(store: &RedisStore, scope: &str) -> Limit {
    let quota = Quota::token_bucket(rate("1/day")).unwrap();
    let options = LimitOptions { on_failure: OnFailure::Open, refusals: Refusals::Final };
    store.limit(scope, quota, options).unwrap()
}

fn stored(store: &RedisStore, name: &str, text: &str) -> StoredOverride {
    StoredOverride { name: name.into(), text: text.into(), until_ns: store.now_ns() + 3_600_000_000_000 }
}

/// Uses a key up, until the refusal is answered from memory.
async fn until_remembered(store: &RedisStore, limit: &Limit, key: &str) {
    for _ in 0..1_000 {
        if check(store, limit, key).await.source == Source::Cached {
            return;
        }
    }
    panic!("no refusal is remembered: {:?}", store.stats());
}

/// Asks until it passes. What is remembered too long is a refusal for a day.
async fn until_it_passes(store: &RedisStore, limit: &Limit, key: &str) {
    for _ in 0..5_000 {
        if check(store, limit, key).await.passed {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("it goes on refusing: {:?}", store.stats());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credit_gives_back_what_was_used_and_no_more() {
    let server = RedisServer::start(&[]).unwrap();
    let redis = standalone_options(server.address());
    let (one, other) = (connect(&redis, patient()).await, connect(&redis, patient()).await);
    // So long that no window ends while a test looks.
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
        assert_eq!(used(&one, &of_one, "ann").await, 0, "{scope}: nobody has more than everything");
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
async fn in_a_cluster_all_instances_hear_of_a_reset_and_of_an_override() {
    let cluster = RedisCluster::start().unwrap();
    let redis = cluster_options(&cluster);
    let (one, other) = (connect(&redis, patient()).await, connect(&redis, patient()).await);
    for key in ["ann", "ben", "cid", "dan", "eve", "fay"] {
        let (of_one, of_other) = (lasting(&one, "block"), lasting(&other, "block"));
        until_remembered(&other, &of_other, key).await;
        admin(&one).reset(&[(&of_one, key.as_bytes())]).await.unwrap();
        until_it_passes(&other, &of_other, key).await;
    }
    admin(&one).set_override(stored(&one, "a", "text")).await.unwrap();
    until("the other reads it", || admin(&other).overrides().read().1.len() == 1).await;
    admin(&other).remove_override("a").await.unwrap();
    until("it is gone", || admin(&one).overrides().read().1.is_empty()).await;
}

/// Overrides go with the server's data, as all counters do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_lost_everything_is_believed_again() {
    let mut server = RedisServer::start(&[]).unwrap();
    let redis = standalone_options(server.address());
    let (one, other) = (connect(&redis, patient()).await, connect(&redis, patient()).await);
    admin(&one).set_override(stored(&one, "a", "text")).await.unwrap();
    until("the other reads it", || admin(&other).overrides().read().1.len() == 1).await;
    let limit = lasting(&other, "block");
    until_remembered(&other, &limit, "ann").await;
    server.kill().unwrap();
    server.restart().unwrap();
    until("there are no overrides", || admin(&other).overrides().read().1.is_empty()).await;
    until_it_passes(&other, &limit, "ann").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_are_not_more_overrides_than_so_many() {
    let server = RedisServer::start(&[]).unwrap();
    let one = connect(&standalone_options(server.address()), patient()).await;
    for number in 0..MAX_OVERRIDES {
        admin(&one).set_override(stored(&one, &number.to_string(), "200/min")).await.unwrap();
    }
    assert!(admin(&one).set_override(stored(&one, "one more", "200/min")).await.is_err());
    admin(&one).set_override(stored(&one, "7", "300/min")).await.unwrap();
    let overrides = admin(&one).overrides().read().1;
    assert_eq!((overrides.len(), &*overrides[MAX_OVERRIDES - 1].text), (MAX_OVERRIDES, "300/min"));
}

/// For the figures in the report of a change, not for a machine that checks it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn how_long_until_another_instance_hears_of_a_reset() {
    let server = RedisServer::start(&[]).unwrap();
    let redis = standalone_options(server.address());
    let (one, other) = (connect(&redis, patient()).await, connect(&redis, patient()).await);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (of_one, of_other) = (lasting(&one, "block"), lasting(&other, "block"));
    let mut took = Vec::new();
    for _ in 0..200 {
        until_remembered(&other, &of_other, "ann").await;
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
