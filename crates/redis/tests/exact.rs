//! Several instances share one limit exactly, on a real server.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use tollgate_redis::{RedisOptions, RedisStore, RedisStoreSettings};
use tollgate_store::{Charge, LimitOptions, OnFailure, Quota, Refusals, Source, Store};
use tollgate_testbed::RedisServer;

const CLOSED: LimitOptions =
    LimitOptions { on_failure: OnFailure::Closed, refusals: Refusals::Brief, lease: None, regional: false };

fn settings() -> RedisStoreSettings {
    RedisStoreSettings { deadline: Duration::from_secs(5), ..RedisStoreSettings::default() }
}

async fn wait_until_ready(store: &RedisStore) {
    for _ in 0..1_000 {
        if store.is_ready() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("the server was not reached within two seconds");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_instances_together_admit_exactly_the_limit() {
    let server = RedisServer::start(&[]).unwrap();
    let options = RedisOptions::standalone(server.address().to_string());
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let store = Arc::new(RedisStore::connect(&options, settings(), |_| {}).unwrap());
        wait_until_ready(&store).await;
        let quota = Quota::sliding_window_log("100/h".parse().unwrap()).unwrap();
        let limit = store.limit("per-user", quota, CLOSED).unwrap();
        for _ in 0..32 {
            let (store, limit) = (Arc::clone(&store), limit.clone());
            tasks.push(tokio::spawn(async move {
                let charge = || Charge::new(&limit, b"alice", 1);
                let mut admitted = 0;
                for _ in 0..20 {
                    let outcome = store.check_all(&[charge()]).await;
                    assert_ne!(outcome.source, Source::Fallback, "{outcome:?}");
                    admitted += u32::from(outcome.passed);
                }
                admitted
            }));
        }
    }
    let mut admitted = 0;
    for task in tasks {
        admitted += task.await.unwrap();
    }
    assert_eq!(admitted, 100);
}
