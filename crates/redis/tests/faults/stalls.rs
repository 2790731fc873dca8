//! A server that stalls, and then reads the calls that were sent to it meanwhile.

use std::time::Duration;

use tokio::time::sleep;
use tollgate_store::{OnFailure, Quota, Store};
use tollgate_testbed::RedisServer;

use crate::support::{check, connect, default_settings, options, standalone_options, until_exact, used};

/// Longer than the reply timeout of a connection.
const STALL: Duration = Duration::from_millis(1_300);
const BEFORE: u64 = 3;
const MEANWHILE: u64 = 6;

/// Makes three checks, and six more during a stall. Returns the number admitted, and the usage counted by the server after
/// its recovery.
async fn used_after_a_stall(on_failure: OnFailure) -> (u64, u64) {
    let server = RedisServer::start(&[]).unwrap();
    let store = connect(&standalone_options(server.address()), default_settings()).await;
    let quota = Quota::token_bucket("40/h".parse().unwrap()).unwrap();
    let limit = store.limit("stalled", quota, options(on_failure)).unwrap();
    let mut admitted = 0;
    // On a busy machine a check may miss its deadline.
    while admitted < BEFORE {
        admitted += u64::from(check(&store, &limit, "alice").await.passed);
    }
    assert_eq!(store.stats().failures.iter().map(|(_, count)| count).sum::<u64>(), 0, "{:?}", store.stats());
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
async fn locally_admitted_requests_of_a_stall_are_charged_once() {
    let (admitted, used) = used_after_a_stall(OnFailure::Local { share: (1, 4) }).await;
    assert_eq!((admitted, used), (BEFORE + MEANWHILE, BEFORE + MEANWHILE));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_requests_of_a_stall_are_not_charged() {
    let (admitted, used) = used_after_a_stall(OnFailure::Closed).await;
    assert_eq!((admitted, used), (BEFORE, BEFORE));
}
