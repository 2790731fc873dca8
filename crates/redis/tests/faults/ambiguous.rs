//! Calls of which nobody knows whether they were carried out.

use std::time::Duration;

use tollgate_redis::{BreakerSettings, StoreSettings};
use tollgate_store::{OnFailure, Source, Store};
use tollgate_testbed::{Fault, FaultProxy, RedisServer};

use crate::support::{
    Tally, check, connect, endless_log, options, patient, standalone_options, until, until_exact, used,
};

const CHECKS: usize = 20;

/// Every check reaches the server, whatever became of the ones before.
fn without_breaker() -> StoreSettings {
    let breaker = BreakerSettings { failures_in_a_row: u32::MAX, failure_percent: 101, ..BreakerSettings::default() };
    StoreSettings { breaker, ..patient() }
}

/// Checks whose answers are lost, one at a time. Returns what they said, and what the server counted meanwhile.
async fn with_lost_answers(on_failure: OnFailure) -> (Tally, u64) {
    let server = RedisServer::start(&[]).unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let store = connect(&standalone_options(proxy.address()), without_breaker()).await;
    let limit = store.limit("ambiguous", endless_log(10_000), options(on_failure)).unwrap();
    let direct = connect(&standalone_options(server.address()), patient()).await;
    let direct_limit = direct.limit("ambiguous", endless_log(10_000), options(on_failure)).unwrap();
    let mut tally = Tally::default();
    for _ in 0..CHECKS {
        tally.0.push(check(&store, &limit, "alice").await);
    }
    assert_eq!(tally.exactly_admitted(), CHECKS as u64);
    for _ in 0..CHECKS {
        // A connection is made while all is well, and its first answer is lost.
        proxy.set(Fault::Pass);
        until("a connection", || store.is_ready()).await;
        proxy.set(Fault::DropAfterSend);
        tally.0.push(check(&store, &limit, "alice").await);
    }
    let counted = used(&direct, &direct_limit, "alice").await - CHECKS as u64;
    proxy.set(Fault::Pass);
    let back = until_exact(&store, &limit, "alice").await;
    tally.report("answers lost");
    let unknown = tally.fallen_back();
    println!("answers lost, {on_failure:?}: {unknown} unknown, {counted} counted, exact again after {back:?}");
    assert!(unknown >= CHECKS as u64 / 2, "the answers were not lost");
    assert!(counted >= 1, "the calls were not carried out");
    (tally, used(&store, &limit, "alice").await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_closed_is_charged_at_most_once_for_each_lost_answer() {
    let (tally, used) = with_lost_answers(OnFailure::Closed).await;
    tally.assert_closed();
    let (admitted, unknown) = (tally.admitted(), tally.fallen_back());
    assert!((admitted..=admitted + unknown).contains(&used), "{used} used, {admitted} admitted, {unknown} unknown");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_open_is_charged_at_most_once_more_for_each_lost_answer() {
    let (tally, used) = with_lost_answers(OnFailure::Open).await;
    tally.assert_open();
    let (admitted, unknown) = (tally.admitted(), tally.fallen_back());
    println!("answers lost: {used} used, {admitted} admitted");
    assert!(used <= admitted + unknown, "{used} used, {admitted} admitted, {unknown} unknown");
    assert!(used >= tally.exactly_admitted());
}

/// An answer that only comes late is known in the end: what nobody waited for is given back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_answered_too_late_is_given_back() {
    let server = RedisServer::start(&[]).unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let hurried = StoreSettings { deadline: Duration::from_millis(50), ..without_breaker() };
    let mut slowly = standalone_options(proxy.address());
    // Late is not lost.
    slowly.silence = Duration::from_secs(30);
    let store = connect(&slowly, hurried).await;
    let limit = store.limit("late", endless_log(10_000), options(OnFailure::Closed)).unwrap();
    let direct = connect(&standalone_options(server.address()), patient()).await;
    let direct_limit = direct.limit("late", endless_log(10_000), options(OnFailure::Closed)).unwrap();
    proxy.set(Fault::Delay(Duration::from_millis(200)));
    let mut tally = Tally::default();
    for _ in 0..CHECKS {
        tally.0.push(check(&store, &limit, "alice").await);
    }
    tally.report("answered too late");
    assert_eq!(tally.fallen_back(), CHECKS as u64);
    proxy.set(Fault::Pass);
    let mut left = u64::MAX;
    for _ in 0..1_000 {
        left = used(&direct, &direct_limit, "alice").await;
        if left == 0 && store.stats().refunds >= 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("answered too late: {} charges given back", store.stats().refunds);
    assert_eq!(left, 0, "charges that nobody waited for");
    assert_eq!(check(&direct, &direct_limit, "alice").await.source, Source::Exact);
}
