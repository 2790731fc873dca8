//! A cluster that loses nodes, and whose slots migrate.

use std::time::Duration;

use tokio::time::Instant;
use tollgate_store::{OnFailure, Store};
use tollgate_testbed::RedisCluster;

use crate::support::{
    Load, MAX_LATENCY, bucket_without_refill, check, cluster_options, connect, default_settings, failures,
    log_without_expiry, long_deadline, options, slot_of, until, until_exact, used,
};

/// Writes of this span before a replica is disconnected may not have reached it.
const IN_FLIGHT: Duration = Duration::from_millis(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_primary_is_replaced_and_loses_only_unreplicated_charges() {
    const BURST: u64 = 3_000;
    let mut cluster = RedisCluster::start().unwrap();
    let store = connect(&cluster_options(&cluster), default_settings()).await;
    let limit = store.limit("failover", bucket_without_refill(BURST), options(OnFailure::Closed)).unwrap();
    let slot = slot_of(&cluster.nodes()[0], "alice");
    let load = Load::start(&store, &limit, &["alice"], 8);
    load.until_admitted(BURST / 2).await;
    // Writes from now on reach no replica, and are lost with the primary.
    let primary = cluster.owner(slot).unwrap();
    let replica = cluster.replica_of(primary).unwrap();
    let lost_from = Instant::now();
    cluster.nodes()[replica].pause().unwrap();
    cluster.nodes()[primary].command(&["CLIENT", "KILL", "TYPE", "replica"]).unwrap();
    load.until_admitted(100).await;
    cluster.nodes()[primary].kill().unwrap();
    let killed_at = Instant::now();
    cluster.nodes()[replica].resume().unwrap();
    load.until_fallen_back(100).await;
    until_exact(&store, &limit, "alice").await;
    let back = killed_at.elapsed();
    let mut tally = load.end().await;
    // The remaining tokens are spent, so that the lost charges become visible.
    let begun = Instant::now();
    loop {
        let checked = check(&store, &limit, "alice").await;
        tally.0.push(checked);
        if !checked.passed && checked.decision.retry_after().is_some() {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "the burst of {BURST} is never exhausted");
    }
    tally.report("a primary was killed");
    tally.assert_closed();
    let over = tally.admitted().saturating_sub(BURST);
    let in_lost_span = tally.exactly_admitted_between(lost_from - IN_FLIGHT, killed_at);
    println!(
        "a primary was killed: exact again {back:?} after the kill; {} admitted of {BURST}, {over} over; \
         the bound is the number admitted in the lost span of {:?}, {in_lost_span}",
        tally.admitted(),
        killed_at - lost_from,
    );
    assert!(over > 0, "no charge was lost, so the test proves nothing");
    assert!(over <= in_lost_span.min(BURST), "{over} over");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slot_migrations_under_load_lose_no_check_and_no_charge() {
    const KEYS: [&str; 4] = ["alice", "bob", "carol", "dave"];
    let mut cluster = RedisCluster::start().unwrap();
    let store = connect(&cluster_options(&cluster), long_deadline()).await;
    let limit = store.limit("moved", log_without_expiry(1_000_000), options(OnFailure::Closed)).unwrap();
    let slots = KEYS.map(|key| slot_of(&cluster.nodes()[0], key));
    let primaries = [0, 6_000, 12_000].map(|slot| cluster.owner(slot).unwrap());
    let load = Load::start(&store, &limit, &KEYS, 32);
    let mut moves = 0;
    for to in primaries {
        for slot in slots {
            if cluster.owner(slot).unwrap() != to {
                cluster.migrate(slot, to).unwrap();
                moves += 1;
            }
            load.until_admitted(20).await;
        }
    }
    let tally = load.end().await;
    tally.report(&format!("{moves} slots migrated"));
    assert_eq!(tally.fallen_back(), 0, "{:?}", store.stats());
    let mut counted = 0;
    for key in KEYS {
        counted += used(&store, &limit, key).await;
    }
    assert_eq!(counted, tally.admitted());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_without_a_majority_falls_back_and_recovers_when_nodes_return() {
    const SHARE: u64 = 50;
    let mut cluster = RedisCluster::start().unwrap();
    let store = connect(&cluster_options(&cluster), default_settings()).await;
    let local = options(OnFailure::Local { share: (1, 1_000) });
    let limit = store.limit("down", log_without_expiry(SHARE * 1_000), local).unwrap();
    let slot = slot_of(&cluster.nodes()[0], "alice");
    let load = Load::start(&store, &limit, &["alice"], 8);
    load.until_admitted(200).await;
    // The primary of the key survives, and replies CLUSTERDOWN.
    let survivor = cluster.owner(slot).unwrap();
    let survivors = [survivor, cluster.replica_of(survivor).unwrap()];
    let gone: Vec<_> = (0..cluster.nodes().len()).filter(|node| !survivors.contains(node)).collect();
    for &node in &gone {
        cluster.nodes()[node].kill().unwrap();
    }
    let is_down = || {
        let info = cluster.nodes()[survivor].command(&["CLUSTER", "INFO"]);
        info.is_ok_and(|info| info.text().is_some_and(|text| text.contains("cluster_state:fail")))
    };
    let noticed = until("the cluster is down", is_down).await;
    until("the survivor replies CLUSTERDOWN", || failures(&store, "unavailable") > 0).await;
    load.until_fallen_back(200).await;
    let unavailable = failures(&store, "unavailable");
    let checked = check(&store, &limit, "alice").await;
    assert!(checked.took < MAX_LATENCY, "{:?}", checked.took);
    for &node in &gone {
        cluster.nodes()[node].restart().unwrap();
    }
    let back = until_exact(&store, &limit, "alice").await;
    load.until_admitted(100).await;
    let mut tally = load.end().await;
    tally.0.push(checked);
    tally.report("CLUSTERDOWN");
    println!("CLUSTERDOWN: noticed after {noticed:?}, {unavailable} calls, exact again after {back:?}");
    assert!(tally.admitted_in_fallback() <= SHARE, "{} by share", tally.admitted_in_fallback());
    let used = used(&store, &limit, "alice").await;
    println!("CLUSTERDOWN: {used} used, {} admitted", tally.admitted());
    // The survivor has lost no charge.
    assert!((tally.exactly_admitted()..=tally.admitted() + tally.fallen_back()).contains(&used), "{used} used");
}
