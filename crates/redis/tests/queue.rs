//! A queue whose departure times several instances grant.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::{connect, long_deadline, options, standalone_options, until};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tollgate_redis::RedisStore;
use tollgate_store::{Charge, ChargeReceipt, Limit, OnFailure, Outcome, Queue, Quota, Source, Store};
use tollgate_testbed::RedisServer;

/// The interval between departures: a minute, so that the duration of a test is negligible.
const INTERVAL: Duration = Duration::from_secs(60);
const QUEUE_SIZE: u64 = 40;
/// The tolerance for a measured departure time, which includes the latency of the reply.
const TOLERANCE: Duration = Duration::from_secs(10);

fn queue_limit(store: &RedisStore) -> Limit {
    let quota = Quota::leaky_queue("1/min".parse().unwrap(), Queue { size: QUEUE_SIZE, max_wait: None }).unwrap();
    store.limit("queue", quota, options(OnFailure::Closed)).unwrap()
}

async fn charge_one(store: &RedisStore, limit: &Limit) -> Outcome {
    let charge = Charge { receipt: true, ..Charge::new(limit, b"checkout", 1) };
    let outcome = store.check_all(&[charge]).await;
    assert_eq!(outcome.source, Source::Exact, "{outcome:?}");
    outcome
}

/// Enters the queue. Returns the departure time and the receipt; `None` if the queue is full.
async fn enqueue(store: &RedisStore, limit: &Limit) -> Option<(Instant, ChargeReceipt)> {
    let mut outcome = charge_one(store, limit).await;
    let (_, receipt) = outcome.receipts.pop()?;
    Some((Instant::now() + Duration::from_nanos(outcome.decisions[0].delay()), receipt))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn departure_times_granted_by_two_instances_keep_the_interval() {
    let server = RedisServer::start(&[]).unwrap();
    let mut tasks = JoinSet::new();
    for _ in 0..2 {
        let store = connect(&standalone_options(server.address()), long_deadline()).await;
        let limit = queue_limit(&store);
        for _ in 0..16 {
            let (store, limit) = (Arc::clone(&store), limit.clone());
            tasks.spawn(async move {
                let mut departures = Vec::new();
                for _ in 0..4 {
                    departures.extend(enqueue(&store, &limit).await.map(|(departs_at, _)| departs_at));
                }
                departures
            });
        }
    }
    let mut departures: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
    departures.sort();
    // The first request departs immediately, and occupies a position until the next one can depart.
    assert_eq!(departures.len() as u64, QUEUE_SIZE);
    let closest = departures.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap();
    let farthest = departures.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    println!("{} departures, between {closest:?} and {farthest:?} apart", departures.len());
    assert!(closest >= INTERVAL - TOLERANCE, "{closest:?} apart");
    assert!(farthest <= INTERVAL + TOLERANCE, "{farthest:?} apart");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refunded_position_is_granted_again_only_if_it_is_the_last() {
    let server = RedisServer::start(&[]).unwrap();
    let one = connect(&standalone_options(server.address()), long_deadline()).await;
    let other = connect(&standalone_options(server.address()), long_deadline()).await;
    let (limit, other_limit) = (queue_limit(&one), queue_limit(&other));
    let begun = Instant::now();
    let minutes = |departs_at: Instant| ((departs_at - begun).as_millis() + 30_000) / 60_000;
    let mut positions = Vec::new();
    for _ in 0..3 {
        positions.push(enqueue(&one, &limit).await.unwrap());
    }
    assert_eq!(positions.iter().map(|(at, _)| minutes(*at)).collect::<Vec<_>>(), [0, 1, 2]);
    let (_, last) = positions.pop().unwrap();
    let (_, middle) = positions.pop().unwrap();
    refund_and_wait(&one, middle).await;
    // No request moves up, because a granted departure time cannot be changed.
    let (at, next) = enqueue(&other, &other_limit).await.unwrap();
    assert_eq!(minutes(at), 3);
    refund_and_wait(&one, last).await;
    let (at, after) = enqueue(&other, &other_limit).await.unwrap();
    assert_eq!(minutes(at), 4, "the refunded position was not the last any more");
    refund_and_wait(&other, after).await;
    let (at, again) = enqueue(&one, &limit).await.unwrap();
    assert_eq!(minutes(at), 4, "the last position is granted again");
    refund_and_wait(&one, again).await;
    refund_and_wait(&other, next).await;
    let (at, _) = enqueue(&one, &limit).await.unwrap();
    assert_eq!(minutes(at), 3, "positions are freed one after the other, from the end");
}

/// Refunds a position, and waits until the server has executed the refund.
async fn refund_and_wait(store: &RedisStore, receipt: ChargeReceipt) {
    let before = store.stats().refunds;
    store.refund(receipt);
    until("the position is refunded", || store.stats().refunds > before).await;
    // Calls of one instance are executed in order.
    let limit = queue_limit(store);
    let peek = Charge::new(&limit, b"checkout", 0);
    assert_eq!(store.check_all(&[peek]).await.source, Source::Exact);
}
