//! An instance without traffic, and servers that come and go.

use tollgate_redis::{BreakerState, RedisStore};
use tollgate_store::{OnFailure, Store};
use tollgate_testbed::{RedisCluster, RedisServer};

use crate::support::{
    Load, cluster_options, connect, eager, endless_log, options, slot_of, standalone_options, until, until_exact,
};

/// What `tollgate_fallback_active` counts.
fn failing(store: &RedisStore) -> usize {
    store.stats().breakers.iter().filter(|(_, state)| *state != BreakerState::Closed).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_instance_notices_that_its_server_died_and_that_it_is_back() {
    let mut server = RedisServer::start(&[]).unwrap();
    let store = connect(&standalone_options(server.address()), eager()).await;
    server.kill().unwrap();
    let died = until("the idle instance notices that its server died", || failing(&store) == 1).await;
    server.restart().unwrap();
    let back = until("the idle instance notices that its server is back", || failing(&store) == 0).await;
    println!("idle: noticed the death after {died:?}, the return after {back:?}");
    assert_eq!((store.stats().breakers_opened, store.stats().breakers_closed), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn traffic_that_ends_with_an_outage_leaves_no_fallback_behind() {
    let mut server = RedisServer::start(&[]).unwrap();
    let store = connect(&standalone_options(server.address()), eager()).await;
    let limit = store.limit("ends", endless_log(1_000_000), options(OnFailure::Closed)).unwrap();
    let load = Load::start(&store, &limit, &["alice"], 8);
    load.until_admitted(100).await;
    server.kill().unwrap();
    load.until_fallen_back(100).await;
    load.end().await;
    server.restart().unwrap();
    until("nothing falls back", || failing(&store) == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_left_the_cluster_is_forgotten() {
    let mut cluster = RedisCluster::start().unwrap();
    let store = connect(&cluster_options(&cluster), eager()).await;
    let limit = store.limit("left", endless_log(1_000_000), options(OnFailure::Closed)).unwrap();
    let slot = slot_of(&cluster.nodes()[0], "alice");
    let load = Load::start(&store, &limit, &["alice"], 8);
    load.until_admitted(200).await;
    let primary = cluster.owner(slot).unwrap();
    cluster.nodes()[primary].kill().unwrap();
    load.until_fallen_back(100).await;
    until_exact(&store, &limit, "alice").await;
    load.until_admitted(200).await;
    load.end().await;
    let forgotten = until("the old primary is forgotten", || failing(&store) == 0).await;
    println!("failover: no server fails any more {forgotten:?} after the last check");
    assert_eq!(store.stats().breakers.len(), 3, "{:?}", store.stats());
}
