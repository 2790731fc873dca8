//! Leases of permits: expiry after the death of the holder, and renewal.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::time::Duration;

use support::{ChildProcess, connect, long_deadline, options, standalone_options, used};
use tokio::time::{Instant, sleep};
use tollgate_redis::{RedisOptions, RedisStore};
use tollgate_store::{Charge, ChargeReceipt, Limit, OnFailure, Quota, Store};
use tollgate_testbed::RedisServer;

const PERMITS: u64 = 2;
const LEASE: Duration = Duration::from_secs(2);

fn permits(store: &RedisStore) -> Limit {
    let quota = Quota::concurrency(PERMITS, Some(LEASE)).unwrap();
    store.limit("reports", quota, options(OnFailure::Closed)).unwrap()
}

async fn take(store: &RedisStore, limit: &Limit) -> Option<ChargeReceipt> {
    let charge = Charge { receipt: true, ..Charge::new(limit, b"alice", 1) };
    store.check_all(&[charge]).await.receipts.pop().map(|(_, receipt)| receipt)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permit_of_a_killed_process_expires_and_a_renewed_one_is_kept() {
    let server = RedisServer::start(&[]).unwrap();
    let store = connect(&standalone_options(server.address()), long_deadline()).await;
    let limit = permits(&store);
    let mut child = ChildProcess::start(&server.address().to_string());
    child.wait_until_ready();
    child.begin();
    assert_eq!(child.receive().as_deref(), Some("held"));
    let own = take(&store, &limit).await.unwrap();
    let begun = Instant::now();
    // The child renews its permit, so it is held longer than the lease.
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
        assert!(killed_at.elapsed() < LEASE * 5, "the permit does not expire");
        sleep(Duration::from_millis(20)).await;
    };
    let back = killed_at.elapsed();
    println!("a permit was available again {back:?} after its holder was killed, with a lease of {LEASE:?}");
    assert!(back <= LEASE + Duration::from_secs(1), "{back:?}");
    // The renewed permit is still held.
    assert_eq!(used(&store, &limit, "alice").await, PERMITS);
    store.refund(own);
    store.refund(taken);
    assert_eq!(used(&store, &limit, "alice").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permit_not_renewed_in_time_expires_and_renewing_it_fails() {
    let server = RedisServer::start(&[]).unwrap();
    let store = connect(&standalone_options(server.address()), long_deadline()).await;
    let limit = permits(&store);
    let own = take(&store, &limit).await.unwrap();
    let begun = Instant::now();
    while used(&store, &limit, "alice").await > 0 {
        assert!(begun.elapsed() < LEASE * 5, "the permit does not expire");
        sleep(Duration::from_millis(20)).await;
    }
    assert!(begun.elapsed() >= LEASE - Duration::from_millis(100), "after {:?}", begun.elapsed());
    // The reply to a renewal is processed in the background, so a later call reports the loss.
    for _ in 0..1_000 {
        if !store.renew(&own) {
            return;
        }
        sleep(Duration::from_millis(5)).await;
    }
    panic!("a lost permit was renewed");
}

/// Not a test: the process that holds a permit until it is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Some(address) = ChildProcess::task() else { return };
    let store = connect(&RedisOptions::standalone(address), long_deadline()).await;
    let limit = permits(&store);
    ChildProcess::wait_for_start();
    let permit = take(&store, &limit).await.unwrap();
    ChildProcess::send("held");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(60) {
        assert!(store.renew(&permit));
        sleep(Duration::from_millis(100)).await;
    }
}
