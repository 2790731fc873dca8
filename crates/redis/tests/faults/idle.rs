//! Detection of failure and recovery by an instance without traffic.

use tollgate_redis::{BreakerState, RedisStore};
use tollgate_store::{OnFailure, Store};
use tollgate_testbed::{RedisCluster, RedisServer};

use crate::support::{
    Load, cluster_options, connect, default_settings, log_without_expiry, options, slot_of, standalone_options, until,
    until_exact,
};

/// Returns the number of servers that `tollgate_fallback_active` reports.
fn failing_servers(store: &RedisStore) -> usize {
    store.stats().breakers.iter().filter(|(_, state)| *state != BreakerState::Closed).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_instance_detects_failure_and_recovery_of_its_server() {
    let mut server = RedisServer::start(&[]).unwrap();
    let store = connect(&standalone_options(server.address()), default_settings()).await;
    server.kill().unwrap();
    let died = until("the idle instance detects the failure", || failing_servers(&store) == 1).await;
    server.restart().unwrap();
    let back = until("the idle instance detects the recovery", || failing_servers(&store) == 0).await;
    println!("idle: detected the failure after {died:?}, the recovery after {back:?}");
    assert_eq!((store.stats().breakers_opened, store.stats().breakers_closed), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn breaker_closes_after_recovery_without_traffic() {
    let mut server = RedisServer::start(&[]).unwrap();
    let store = connect(&standalone_options(server.address()), default_settings()).await;
    let limit = store.limit("ends", log_without_expiry(1_000_000), options(OnFailure::Closed)).unwrap();
    let load = Load::start(&store, &limit, &["alice"], 8);
    load.until_admitted(100).await;
    server.kill().unwrap();
    load.until_fallen_back(100).await;
    load.end().await;
    server.restart().unwrap();
    until("no server is failing", || failing_servers(&store) == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_that_left_the_cluster_is_removed_from_the_breakers() {
    let mut cluster = RedisCluster::start().unwrap();
    let store = connect(&cluster_options(&cluster), default_settings()).await;
    let limit = store.limit("left", log_without_expiry(1_000_000), options(OnFailure::Closed)).unwrap();
    let slot = slot_of(&cluster.nodes()[0], "alice");
    let load = Load::start(&store, &limit, &["alice"], 8);
    load.until_admitted(200).await;
    let primary = cluster.owner(slot).unwrap();
    cluster.nodes()[primary].kill().unwrap();
    load.until_fallen_back(100).await;
    until_exact(&store, &limit, "alice").await;
    load.until_admitted(200).await;
    load.end().await;
    let removed = until("the old primary is removed", || failing_servers(&store) == 0).await;
    println!("failover: no server is failing {removed:?} after the last check");
    assert_eq!(store.stats().breakers.len(), 3, "{:?}", store.stats());
}
