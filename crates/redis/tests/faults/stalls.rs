//! A server that stands still, and then carries out what was sent to it meanwhile.

use std::time::Duration;

use tokio::time::sleep;
use tollgate_store::{OnFailure, Quota, Store};
use tollgate_testbed::RedisServer;

use crate::support::{check, connect, eager, options, standalone_options, until_exact, used};

/// Longer than a connection may be silent before it is given up.
const STALL: Duration = Duration::from_millis(1_300);
const BEFORE: u64 = 3;
const MEANWHILE: u64 = 6;

/// Three checks, a stall with six more, and what the server has counted once it answers again.
async fn used_after_a_stall(on_failure: OnFailure) -> (u64, u64) {
    let server = RedisServer::start(&[]).unwrap();
    let store = connect(&standalone_options(server.address()), eager()).await;
    let quota = Quota::token_bucket("40/h".parse().unwrap()).unwrap();
    let limit = store.limit("stalled", quota, options(on_failure)).unwrap();
    let mut admitted = 0;
    // A busy machine may miss a deadline now and then: that is not what this is about.
    while admitted < BEFORE {
        admitted += u64::from(check(&store, &limit, "alice").await.passed);
    }
    assert_eq!(store.stats().troubles.iter().map(|(_, count)| count).sum::<u64>(), 0, "{:?}", store.stats());
    server.pause().unwrap();
    for _ in 0..MEANWHILE {
        admitted += u64::from(check(&store, &limit, "alice").await.passed);
    }
    sleep(STALL).await;
    server.resume().unwrap();
    until_exact(&store, &limit, "alice").await;
    println!("{on_failure:?}: {:?}", store.stats());
    (admitted, used(&store, &limit, "alice").await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_passed_on_its_own_during_a_stall_is_charged_once() {
    let (admitted, used) = used_after_a_stall(OnFailure::Local { share: (1, 4) }).await;
    assert_eq!((admitted, used), (BEFORE + MEANWHILE, BEFORE + MEANWHILE));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_refused_during_a_stall_is_not_charged_afterwards() {
    let (admitted, used) = used_after_a_stall(OnFailure::Closed).await;
    assert_eq!((admitted, used), (BEFORE, BEFORE));
}
