//! The requests that instances admit locally while the server fails, and the charges for them afterwards.

use std::sync::Arc;
use std::time::Duration;

use tollgate_redis::{RedisOptions, RedisStore, RedisStoreSettings};
use tollgate_store::{Limit, OnFailure, Store};
use tollgate_testbed::RedisServer;

use crate::support::{
    Tally, check, connect, log_without_expiry, long_deadline, options, standalone_options, until, until_exact, used,
};

const LIMIT: u64 = 100;
/// The number of requests that one instance admits locally.
const SHARE: u64 = LIMIT / 4;
const INSTANCES: u64 = 2;

struct Instance {
    store: Arc<RedisStore>,
    limit: Limit,
}

impl Instance {
    async fn connect(redis: &RedisOptions, settings: RedisStoreSettings) -> Instance {
        let store = connect(redis, settings).await;
        let local_options = options(OnFailure::Local { share: (1, 4) });
        let limit = store.limit("outage", log_without_expiry(LIMIT), local_options).unwrap();
        Instance { store, limit }
    }

    async fn two(redis: &RedisOptions, settings: &RedisStoreSettings) -> [Instance; 2] {
        [Instance::connect(redis, settings.clone()).await, Instance::connect(redis, settings.clone()).await]
    }

    async fn check(&self, times: u64, tally: &mut Tally) {
        for _ in 0..times {
            tally.0.push(check(&self.store, &self.limit, "alice").await);
        }
    }
}

/// Makes more checks than its share on each instance, all decided locally.
async fn spend_shares(instances: &[Instance]) -> Tally {
    let mut tally = Tally::default();
    for instance in instances {
        instance.check(SHARE + 5, &mut tally).await;
    }
    assert_eq!(tally.fallen_back(), INSTANCES * (SHARE + 5));
    assert_eq!(tally.admitted(), INSTANCES * SHARE);
    tally.report("locally");
    tally
}

/// Connects two instances with a long reply timeout, so that every call gets its reply in the end.
async fn two_with_long_reply_timeout(server: &RedisServer) -> [Instance; 2] {
    let mut redis = standalone_options(server.address());
    redis.silence = Duration::from_secs(60);
    let settings = RedisStoreSettings { deadline: Duration::from_millis(300), ..RedisStoreSettings::default() };
    Instance::two(&redis, &settings).await
}

/// Spends the remaining tokens.
async fn spend_the_rest(instances: &[Instance]) -> Tally {
    let mut tally = Tally::default();
    for instance in instances {
        instance.check(LIMIT, &mut tally).await;
    }
    assert_eq!(tally.fallen_back(), 0, "{:?}", instances.iter().map(|one| one.store.stats()).collect::<Vec<_>>());
    tally.report("afterwards");
    tally
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locally_admitted_requests_are_charged_once_after_a_restart_without_data() {
    let mut server = RedisServer::start(&[]).unwrap();
    let instances = Instance::two(&standalone_options(server.address()), &long_deadline()).await;
    let mut before = Tally::default();
    for instance in &instances {
        instance.check(20, &mut before).await;
    }
    assert_eq!(before.exactly_admitted(), 40);
    server.kill().unwrap();
    for Instance { store, .. } in &instances {
        until("the connection is lost", || !store.is_ready()).await;
    }
    let local = spend_shares(&instances).await;
    server.restart().unwrap();
    for (at, Instance { store, limit }) in (1..).zip(&instances) {
        until_exact(store, limit, "alice").await;
        // Each instance charges its own admitted requests once; later peeks charge nothing.
        assert_eq!(used(store, limit, "alice").await, at * SHARE);
    }
    for Instance { store, .. } in &instances {
        assert_eq!((store.stats().paid_debts, store.stats().debts), (1, 0));
    }
    let after = spend_the_rest(&instances).await;
    assert_eq!(after.admitted(), LIMIT - INSTANCES * SHARE);
    let total = local.admitted() + after.admitted();
    println!("data lost: {total} admitted since the outage began, at most {}", LIMIT + INSTANCES * SHARE);
    assert!(total <= LIMIT + INSTANCES * SHARE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locally_admitted_requests_are_charged_once_after_a_stall() {
    let server = RedisServer::start(&[]).unwrap();
    let instances = two_with_long_reply_timeout(&server).await;
    let mut before = Tally::default();
    instances[0].check(15, &mut before).await;
    instances[1].check(5, &mut before).await;
    let kept = before.exactly_admitted();
    server.pause().unwrap();
    let local = spend_shares(&instances).await;
    server.resume().unwrap();
    for Instance { store, limit } in &instances {
        until_exact(store, limit, "alice").await;
    }
    // The charges of late replies are refunded in the background.
    let expected = kept + INSTANCES * SHARE + before.admitted_in_fallback();
    let mut counted = 0;
    for _ in 0..1_000 {
        counted = used(&instances[0].store, &instances[0].limit, "alice").await;
        if counted == expected {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(counted, expected, "charged once, and all of it");
    let after = spend_the_rest(&instances).await;
    let total = before.admitted() + local.admitted() + after.admitted();
    println!("data kept: {total} admitted in all, at most {}", LIMIT + INSTANCES * SHARE);
    assert_eq!(total, LIMIT);
    assert!(total <= LIMIT + INSTANCES * SHARE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nearly_exhausted_limit_is_exceeded_by_at_most_the_local_shares() {
    let server = RedisServer::start(&[]).unwrap();
    let instances = two_with_long_reply_timeout(&server).await;
    let mut before = Tally::default();
    instances[0].check(LIMIT - 10, &mut before).await;
    server.pause().unwrap();
    let local = spend_shares(&instances).await;
    server.resume().unwrap();
    for Instance { store, limit } in &instances {
        until_exact(store, limit, "alice").await;
    }
    let after = spend_the_rest(&instances).await;
    let total = before.admitted() + local.admitted() + after.admitted();
    println!("nearly spent: {total} admitted in all, at most {}", LIMIT + INSTANCES * SHARE);
    assert!(total <= LIMIT + INSTANCES * SHARE, "{total}");
}
