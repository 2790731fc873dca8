use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tollgate_testbed::RedisCluster;

use super::helpers::{LONG_TIMEOUT, increment};
use crate::resp_value::Value;
use crate::transport::{Slot, Transport};
use crate::wire::client::RedisClient;
use crate::wire::cluster::key_slot::SLOTS;
use crate::wire::options::RedisOptions;

/// A key, and its slot.
const KEY: &str = "foo";
const SLOT: u16 = 12_182;

async fn start(cluster: &RedisCluster) -> RedisClient {
    let seeds = cluster.addresses().iter().map(ToString::to_string).collect();
    let mut options = RedisOptions::cluster(seeds);
    // The topology is refreshed only after failures.
    options.refresh_every = Duration::from_secs(3600);
    let client = RedisClient::start(&options).unwrap();
    println!("a cluster is ready after {:?}", client.wait_until_ready().await);
    client
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_reach_every_slot_from_one_seed() {
    let cluster = RedisCluster::start().unwrap();
    // One seed is enough, even a replica.
    let seed = cluster.addresses()[5].to_string();
    let client = Arc::new(RedisClient::start(&RedisOptions::cluster(vec![seed])).unwrap());
    client.wait_until_ready().await;
    let (mut keys, mut seen) = (Vec::new(), HashSet::new());
    for number in 0.. {
        let key = number.to_string();
        if seen.insert(client.slot(key.as_bytes())) {
            keys.push(key);
        }
        if seen.len() == SLOTS {
            break;
        }
    }
    let shards: HashSet<_> = (0..SLOTS).map(|slot| client.shard(Slot(slot as u16))).collect();
    assert_eq!(shards.len(), 3);
    let begun = Instant::now();
    let mut callers = JoinSet::new();
    for keys in keys.chunks(SLOTS / 64) {
        let (client, keys) = (Arc::clone(&client), keys.to_vec());
        callers.spawn(async move {
            for key in keys {
                assert_eq!(client.call_within(increment(&key), LONG_TIMEOUT).await, Ok(Value::Integer(1)));
            }
        });
    }
    callers.join_all().await;
    println!("a call to each of {SLOTS} slots: {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_after_a_slot_migration_is_redirected_to_the_new_owner() {
    let cluster = RedisCluster::start().unwrap();
    let client = start(&cluster).await;
    assert_eq!(client.call_within(increment(KEY), LONG_TIMEOUT).await, Ok(Value::Integer(1)));
    let before = client.shard(Slot(SLOT));
    let to = cluster.owner(0).unwrap();
    cluster.migrate(SLOT, to).unwrap();
    let begun = Instant::now();
    assert_eq!(client.call_within(increment(KEY), LONG_TIMEOUT).await, Ok(Value::Integer(2)));
    println!("the first call after a slot has moved: {:?}", begun.elapsed());
    assert_ne!(client.shard(Slot(SLOT)), before);
    assert_eq!(client.shard(Slot(SLOT)), client.shard(Slot(0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_to_a_migrating_slot_follow_ask_redirections() {
    let mut cluster = RedisCluster::start().unwrap();
    let client = start(&cluster).await;
    let (from, to) = (cluster.owner(SLOT).unwrap(), cluster.owner(0).unwrap());
    let shard = client.shard(Slot(SLOT));
    cluster.begin_migration(SLOT, to).unwrap();
    // The owner does not have the key, so it redirects every call; it still owns the slot.
    for expected in 1..=3 {
        assert_eq!(client.call_within(increment(KEY), LONG_TIMEOUT).await, Ok(Value::Integer(expected)));
    }
    assert_eq!(client.shard(Slot(SLOT)), shard);
    assert_eq!(cluster.nodes()[from].command(&["DBSIZE"]).unwrap(), tollgate_testbed::Reply::Integer(0));
    cluster.end_migration(SLOT, to).unwrap();
    assert_eq!(client.call_within(increment(KEY), LONG_TIMEOUT).await, Ok(Value::Integer(4)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_during_a_migration_are_executed_exactly_once() {
    let cluster = RedisCluster::start().unwrap();
    let client = Arc::new(start(&cluster).await);
    let begun = Instant::now();
    let is_over = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let (client, is_over) = (Arc::clone(&client), Arc::clone(&is_over));
            tokio::spawn(async move {
                let (mut passed, mut longest) = (0, Duration::ZERO);
                while !is_over.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    client.call_within(increment(KEY), LONG_TIMEOUT).await.unwrap();
                    longest = longest.max(begun.elapsed());
                    passed += 1;
                }
                (passed, longest)
            })
        })
        .collect();
    let owners = [cluster.owner(0).unwrap(), cluster.owner(SLOT).unwrap()];
    let mover = tokio::task::spawn_blocking(move || {
        for round in 0..6 {
            cluster.migrate(SLOT, owners[round % 2]).unwrap();
        }
        cluster
    });
    let _cluster = mover.await.unwrap();
    is_over.store(true, Ordering::Relaxed);
    let (mut passed, mut longest) = (0, Duration::ZERO);
    for caller in callers {
        let (more, long) = caller.await.unwrap();
        (passed, longest) = (passed + more, longest.max(long));
    }
    println!(
        "{passed} calls passed while their slot moved six times in {:?}, the longest took {longest:?}",
        begun.elapsed()
    );
    assert_eq!(client.call_within(increment(KEY), LONG_TIMEOUT).await, Ok(Value::Integer(passed + 1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_primary_is_replaced_and_other_shards_keep_serving() {
    let mut cluster = RedisCluster::start().unwrap();
    let client = start(&cluster).await;
    client.call_within(increment(KEY), LONG_TIMEOUT).await.unwrap();
    let healthy = (0..100)
        .map(|n| n.to_string())
        .find(|key| client.shard(client.slot(key.as_bytes())) != client.shard(Slot(SLOT)));
    let healthy = healthy.unwrap();
    client.call_within(increment(&healthy), LONG_TIMEOUT).await.unwrap();
    cluster.kill_owner(SLOT).unwrap();
    let begun = Instant::now();
    // The other shards serve calls until the cluster declares itself down.
    let others = tokio::time::Instant::now();
    while others.elapsed() < Duration::from_millis(300) {
        let called = Instant::now();
        client.call_within(increment(&healthy), LONG_TIMEOUT).await.unwrap();
        assert!(called.elapsed() < Duration::from_millis(500));
    }
    client.wait_until_recovered(KEY).await;
    println!("after a killed primary: {:?}", begun.elapsed());
    println!("every slot reachable after another {:?}", client.wait_until_ready().await);
}
