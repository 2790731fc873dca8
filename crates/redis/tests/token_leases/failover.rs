//! A primary with leases is lost.

use std::time::Duration;

use tokio::time::sleep;
use tollgate_store::Store;
use tollgate_testbed::RedisCluster;

use crate::admissions::{Admissions, micros, now_us};
use crate::offered::{KEY, Load};
use crate::support::{cluster_options, connect, default_settings, slot_of, until};
use crate::{RATE, bucket, options};

/// More than refills until a replica is promoted, so that lost charges become visible.
const BURST: u64 = 5_000;
const MAX_LEASED: u64 = BURST / 2;

/// Writes of this span reach no replica.
const UNREPLICATED: Duration = Duration::from_millis(800);

/// Writes of this span before the replica is disconnected may not have reached it.
const IN_FLIGHT: Duration = Duration::from_millis(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failover_adds_at_most_what_is_leased_and_what_exact_mode_loses() {
    let mut cluster = RedisCluster::start().unwrap();
    let slot = slot_of(&cluster.nodes()[0], KEY);
    let mut loads = Vec::new();
    for _ in 0..3 {
        let store = connect(&cluster_options(&cluster), default_settings()).await;
        let limit = store.limit("failover", bucket(RATE, BURST), options(true)).unwrap();
        loads.push((Load::start(&store, &limit, 3 * RATE, false), store));
    }
    sleep(Duration::from_secs(2)).await;
    let primary = cluster.owner(slot).unwrap();
    let replica = cluster.replica_of(primary).unwrap();
    let lost_from_us = now_us() - micros(IN_FLIGHT);
    cluster.nodes()[replica].pause().unwrap();
    cluster.nodes()[primary].command(&["CLIENT", "KILL", "TYPE", "replica"]).unwrap();
    sleep(UNREPLICATED).await;
    cluster.nodes()[primary].kill().unwrap();
    let killed_us = now_us();
    cluster.nodes()[replica].resume().unwrap();
    let answered = |store: &tollgate_redis::RedisStore| store.stats().calls + store.stats().lease_calls;
    until("a replica is promoted", || cluster.owner(slot).is_ok_and(|owner| owner != primary)).await;
    let called = answered(&loads[0].1);
    until("the new primary is called", || answered(&loads[0].1) > called + 5).await;
    sleep(Duration::from_secs(3)).await;
    let mut log = Admissions::default();
    for (load, _) in loads {
        log.merge(load.end().await.1);
    }
    let afterwards = log.between(killed_us, u64::MAX);
    let least_burst = log.least_burst(RATE);
    let (over, lost) = (least_burst.saturating_sub(BURST), log.between(lost_from_us, killed_us).min(BURST));
    println!(
        "failover: {} admitted of which {} from leases, {afterwards} after the kill, within a burst of {least_burst}: \
         {over} over; at most {lost} that reached no replica, as in exact mode, and {MAX_LEASED} leased",
        log.count(),
        log.leased(),
    );
    assert!(log.leased() > 0 && afterwards > RATE, "nothing was leased, or nothing admitted by the new primary");
    assert!(over > 0, "no charge was lost, so the test proves nothing");
    assert!(over <= lost + MAX_LEASED, "{over} over");
}
