//! A cluster that loses nodes, and whose slots move.

use std::time::Duration;

use tokio::time::Instant;
use tollgate_store::{OnFailure, Store};
use tollgate_testbed::{RedisCluster, Reply};

use crate::support::{
    Load, PROMPTLY, check, cluster_options, connect, eager, endless_bucket, endless_log, options, patient, slot_of,
    troubles, until, until_exact, used,
};

/// What was answered just before a replica is cut off may not have reached it.
const IN_FLIGHT: Duration = Duration::from_millis(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_is_killed_is_replaced_and_loses_no_more_than_stated() {
    const BURST: u64 = 3_000;
    let mut cluster = RedisCluster::start().unwrap();
    let store = connect(&cluster_options(&cluster), eager()).await;
    let limit = store.limit("failover", endless_bucket(BURST), options(OnFailure::Closed)).unwrap();
    let slot = slot_of(&cluster.nodes()[0], "alice");
    let load = Load::start(&store, &limit, &["alice"], 8);
    load.until_admitted(BURST / 2).await;
    // What is written from now on reaches no replica: it is lost with the primary.
    let primary = cluster.owner(slot).unwrap();
    let replica = replica_of(&mut cluster, primary);
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
    // All that is left is spent, so that what was lost shows.
    let begun = Instant::now();
    loop {
        let checked = check(&store, &limit, "alice").await;
        tally.0.push(checked);
        if !checked.passed && checked.decision.retry_after().is_some() {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{BURST} are never spent");
    }
    tally.report("a primary was killed");
    tally.assert_closed();
    let over = tally.admitted().saturating_sub(BURST);
    let in_lost_span = tally.exactly_admitted_between(lost_from - IN_FLIGHT, killed_at);
    println!(
        "a primary was killed: exact again {back:?} after the kill; {} admitted of {BURST}, {over} over; \
         stated: at most what was admitted in the lost span of {:?}, {in_lost_span}",
        tally.admitted(),
        killed_at - lost_from,
    );
    assert!(over > 0, "nothing was lost, so nothing was shown");
    assert!(over <= in_lost_span.min(BURST), "{over} over");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_that_move_under_load_lose_no_check_and_no_count() {
    const KEYS: [&str; 4] = ["alice", "bob", "carol", "dave"];
    let mut cluster = RedisCluster::start().unwrap();
    let store = connect(&cluster_options(&cluster), patient()).await;
    let limit = store.limit("moved", endless_log(1_000_000), options(OnFailure::Closed)).unwrap();
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
    tally.report(&format!("{moves} slots moved"));
    assert_eq!(tally.fallen_back(), 0, "{:?}", store.stats());
    let mut counted = 0;
    for key in KEYS {
        counted += used(&store, &limit, key).await;
    }
    assert_eq!(counted, tally.admitted());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_lost_most_of_its_nodes_answers_again_when_they_are_back() {
    const SHARE: u64 = 50;
    let mut cluster = RedisCluster::start().unwrap();
    let store = connect(&cluster_options(&cluster), eager()).await;
    let local = options(OnFailure::Local { share: (1, 1_000) });
    let limit = store.limit("down", endless_log(SHARE * 1_000), local).unwrap();
    let slot = slot_of(&cluster.nodes()[0], "alice");
    let load = Load::start(&store, &limit, &["alice"], 8);
    load.until_admitted(200).await;
    // The primary of the key survives, and says that the cluster is down.
    let survivor = cluster.owner(slot).unwrap();
    let survivors = [survivor, replica_of(&mut cluster, survivor)];
    let gone: Vec<_> = (0..cluster.nodes().len()).filter(|node| !survivors.contains(node)).collect();
    for &node in &gone {
        cluster.nodes()[node].kill().unwrap();
    }
    let is_down = || {
        let info = cluster.nodes()[survivor].command(&["CLUSTER", "INFO"]);
        info.is_ok_and(|info| info.text().is_some_and(|text| text.contains("cluster_state:fail")))
    };
    let noticed = until("the cluster is down", is_down).await;
    until("the survivor says so", || troubles(&store, "unavailable") > 0).await;
    load.until_fallen_back(200).await;
    let unavailable = troubles(&store, "unavailable");
    let checked = check(&store, &limit, "alice").await;
    assert!(checked.took < PROMPTLY, "{:?}", checked.took);
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
    // Nothing of the survivor's was lost.
    assert!((tally.exactly_admitted()..=tally.admitted() + tally.fallen_back()).contains(&used), "{used} used");
}

/// Who follows a primary, by place among the nodes.
fn replica_of(cluster: &mut RedisCluster, primary: usize) -> usize {
    let port = cluster.nodes()[primary].address().port();
    let follows = format!("master_port:{port}\r\n");
    let info = |node: &tollgate_testbed::RedisServer| node.command(&["INFO", "replication"]).unwrap();
    let mut nodes = cluster.nodes().iter();
    nodes.position(|node| matches!(info(node), Reply::Text(text) if text.contains(&follows))).unwrap()
}
