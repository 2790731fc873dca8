//! Permits whose holder dies.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::time::Duration;

use support::{ChildProcess, connect, options, patient, standalone_options, used};
use tokio::time::{Instant, sleep};
use tollgate_redis::{RedisOptions, RedisStore};
use tollgate_store::{Charge, Limit, OnFailure, Quota, Receipt, Store};
use tollgate_testbed::RedisServer;

const PERMITS: u64 = 2;
const LEASE: Duration = Duration::from_secs(2);

fn permits(store: &RedisStore) -> Limit {
    let quota = Quota::concurrency(PERMITS, Some(LEASE)).unwrap();
    store.limit("reports", quota, options(OnFailure::Closed)).unwrap()
}

async fn take(store: &RedisStore, limit: &Limit) -> Option<Receipt> {
    let charge = Charge { receipt: true, ..Charge::new(limit, b"alice", 1) };
    store.decide(&[charge]).await.receipts.pop().map(|(_, receipt)| receipt)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_permit_of_a_process_that_died_comes_back_and_a_renewed_one_stays() {
    let server = RedisServer::start(&[]).unwrap();
    let store = connect(&standalone_options(server.address()), patient()).await;
    let limit = permits(&store);
    let mut child = ChildProcess::start(&server.address().to_string());
    child.is_ready();
    child.begin();
    assert_eq!(child.hear().as_deref(), Some("held"));
    let own = take(&store, &limit).await.unwrap();
    let begun = Instant::now();
    // The child renews its own, so it stays beyond the lease.
    while begun.elapsed() < LEASE * 3 / 2 {
        assert!(store.renew(&own));
        assert_eq!(used(&store, &limit, "alice").await, PERMITS);
        assert!(take(&store, &limit).await.is_none());
        sleep(Duration::from_millis(50)).await;
    }
    child.kill();
    let killed_at = Instant::now();
    let taken = loop {
        assert!(store.renew(&own));
        if let Some(taken) = take(&store, &limit).await {
            break taken;
        }
        assert!(killed_at.elapsed() < LEASE * 5, "the permit does not come back");
        sleep(Duration::from_millis(20)).await;
    };
    let back = killed_at.elapsed();
    println!("a permit came back {back:?} after its holder was killed, with a lease of {LEASE:?}");
    assert!(back <= LEASE + Duration::from_secs(1), "{back:?}");
    // The renewed one is still held.
    assert_eq!(used(&store, &limit, "alice").await, PERMITS);
    store.give_back(own);
    store.give_back(taken);
    assert_eq!(used(&store, &limit, "alice").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permit_that_is_not_renewed_in_time_is_lost_and_said_to_be() {
    let server = RedisServer::start(&[]).unwrap();
    let store = connect(&standalone_options(server.address()), patient()).await;
    let limit = permits(&store);
    let own = take(&store, &limit).await.unwrap();
    let begun = Instant::now();
    while used(&store, &limit, "alice").await > 0 {
        assert!(begun.elapsed() < LEASE * 5, "the permit does not come back");
        sleep(Duration::from_millis(20)).await;
    }
    assert!(begun.elapsed() >= LEASE - Duration::from_millis(100), "after {:?}", begun.elapsed());
    // Whether it is still held is heard in the background.
    for _ in 0..1_000 {
        if !store.renew(&own) {
            return;
        }
        sleep(Duration::from_millis(5)).await;
    }
    panic!("a lost permit was renewed");
}

/// Not a test by itself: a process that holds a permit until it is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Some(address) = ChildProcess::task() else { return };
    let store = connect(&RedisOptions::standalone(address), patient()).await;
    let limit = permits(&store);
    ChildProcess::wait_for_the_others();
    let permit = take(&store, &limit).await.unwrap();
    ChildProcess::say("held");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(60) {
        assert!(store.renew(&permit));
        sleep(Duration::from_millis(100)).await;
    }
}
