//! Places in a queue that several instances hand out.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::{connect, options, patient, standalone_options, until};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tollgate_redis::RedisStore;
use tollgate_store::{Charge, Limit, OnFailure, Outcome, Queue, Quota, Receipt, Source, Store};
use tollgate_testbed::RedisServer;

/// One departs each minute, so that what a test takes is nothing beside it.
const APART: Duration = Duration::from_secs(60);
const PLACES: u64 = 40;
/// How far the measured time of a departure may be off: by the way of the answer.
const INACCURACY: Duration = Duration::from_secs(10);

fn line(store: &RedisStore) -> Limit {
    let quota = Quota::leaky_queue("1/min".parse().unwrap(), Queue { size: PLACES, max_wait: None }).unwrap();
    store.limit("queue", quota, options(OnFailure::Closed)).unwrap()
}

async fn enter(store: &RedisStore, limit: &Limit) -> Outcome {
    let charge = Charge { receipt: true, ..Charge::new(limit, b"checkout", 1) };
    let outcome = store.decide(&[charge]).await;
    assert_eq!(outcome.source, Source::Exact, "{outcome:?}");
    outcome
}

/// Enters, and returns when it is to depart, with the receipt.
async fn place(store: &RedisStore, limit: &Limit) -> Option<(Instant, Receipt)> {
    let mut outcome = enter(store, limit).await;
    let (_, receipt) = outcome.receipts.pop()?;
    Some((Instant::now() + Duration::from_nanos(outcome.decisions[0].delay()), receipt))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_instances_hand_out_places_that_are_never_too_close() {
    let server = RedisServer::start(&[]).unwrap();
    let mut tasks = JoinSet::new();
    for _ in 0..2 {
        let store = connect(&standalone_options(server.address()), patient()).await;
        let limit = line(&store);
        for _ in 0..16 {
            let (store, limit) = (Arc::clone(&store), limit.clone());
            tasks.spawn(async move {
                let mut departures = Vec::new();
                for _ in 0..4 {
                    departures.extend(place(&store, &limit).await.map(|(departs_at, _)| departs_at));
                }
                departures
            });
        }
    }
    let mut departures: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
    departures.sort();
    // The first departs at once, and has a place until the next can depart.
    assert_eq!(departures.len() as u64, PLACES);
    let closest = departures.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap();
    let farthest = departures.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    println!("{} departures, between {closest:?} and {farthest:?} apart", departures.len());
    assert!(closest >= APART - INACCURACY, "{closest:?} apart");
    assert!(farthest <= APART + INACCURACY, "{farthest:?} apart");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_place_comes_back_only_if_it_is_the_last() {
    let server = RedisServer::start(&[]).unwrap();
    let one = connect(&standalone_options(server.address()), patient()).await;
    let other = connect(&standalone_options(server.address()), patient()).await;
    let (limit, other_limit) = (line(&one), line(&other));
    let begun = Instant::now();
    let minutes = |departs_at: Instant| ((departs_at - begun).as_millis() + 30_000) / 60_000;
    let mut places = Vec::new();
    for _ in 0..3 {
        places.push(place(&one, &limit).await.unwrap());
    }
    assert_eq!(places.iter().map(|(at, _)| minutes(*at)).collect::<Vec<_>>(), [0, 1, 2]);
    let (_, last) = places.pop().unwrap();
    let (_, middle) = places.pop().unwrap();
    give_back(&one, middle).await;
    // Nobody moves up, because nobody can tell the one behind.
    let (at, next) = place(&other, &other_limit).await.unwrap();
    assert_eq!(minutes(at), 3);
    give_back(&one, last).await;
    let (at, after) = place(&other, &other_limit).await.unwrap();
    assert_eq!(minutes(at), 4, "the one given back was not the last any more");
    give_back(&other, after).await;
    let (at, again) = place(&one, &limit).await.unwrap();
    assert_eq!(minutes(at), 4, "the last one is given to the next");
    give_back(&one, again).await;
    give_back(&other, next).await;
    let (at, _) = place(&one, &limit).await.unwrap();
    assert_eq!(minutes(at), 3, "one after the other, from the end");
}

/// Gives a place back, and waits until the server has heard of it.
async fn give_back(store: &RedisStore, receipt: Receipt) {
    let before = store.stats().refunds;
    store.give_back(receipt);
    until("it is given back", || store.stats().refunds > before).await;
    // Calls of one instance arrive in order.
    let limit = line(store);
    let look = Charge::new(&limit, b"checkout", 0);
    assert_eq!(store.decide(&[look]).await.source, Source::Exact);
}
