//! Calls whose execution is unknown because the reply is lost or late.

use std::time::Duration;

use tollgate_redis::{BreakerSettings, RedisStoreSettings};
use tollgate_store::{OnFailure, Source, Store};
use tollgate_testbed::{Fault, FaultProxy, RedisServer};

use crate::support::{
    Tally, check, connect, log_without_expiry, long_deadline, options, standalone_options, until, until_exact, used,
};

const CHECKS: usize = 20;

/// Returns settings under which every check is sent, even if earlier ones failed.
fn without_breaker() -> RedisStoreSettings {
    let breaker = BreakerSettings { failures_in_a_row: u32::MAX, failure_percent: 101, ..BreakerSettings::default() };
    RedisStoreSettings { breaker, ..long_deadline() }
}

/// Makes checks whose replies are lost, one at a time. Returns the outcomes, and the usage counted by the server.
async fn check_with_lost_replies(on_failure: OnFailure) -> (Tally, u64) {
    let server = RedisServer::start(&[]).unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let store = connect(&standalone_options(proxy.address()), without_breaker()).await;
    let limit = store.limit("ambiguous", log_without_expiry(10_000), options(on_failure)).unwrap();
    let direct = connect(&standalone_options(server.address()), long_deadline()).await;
    let direct_limit = direct.limit("ambiguous", log_without_expiry(10_000), options(on_failure)).unwrap();
    let mut tally = Tally::default();
    for _ in 0..CHECKS {
        tally.0.push(check(&store, &limit, "alice").await);
    }
    assert_eq!(tally.exactly_admitted(), CHECKS as u64);
    for _ in 0..CHECKS {
        // The connection is established without a fault, and its first reply is lost.
        proxy.set(Fault::Pass);
        until("the server is connected", || store.is_ready()).await;
        proxy.set(Fault::DropAfterSend);
        tally.0.push(check(&store, &limit, "alice").await);
    }
    let counted = used(&direct, &direct_limit, "alice").await - CHECKS as u64;
    proxy.set(Fault::Pass);
    let back = until_exact(&store, &limit, "alice").await;
    tally.report("replies lost");
    let unknown = tally.fallen_back();
    println!("replies lost, {on_failure:?}: {unknown} unknown, {counted} counted, exact again after {back:?}");
    assert!(unknown >= CHECKS as u64 / 2, "the replies were not lost");
    assert!(counted >= 1, "the calls were not executed");
    (tally, used(&store, &limit, "alice").await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_limit_is_charged_at_most_once_for_each_lost_reply() {
    let (tally, used) = check_with_lost_replies(OnFailure::Closed).await;
    tally.assert_closed();
    let (admitted, unknown) = (tally.admitted(), tally.fallen_back());
    assert!((admitted..=admitted + unknown).contains(&used), "{used} used, {admitted} admitted, {unknown} unknown");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_limit_is_charged_at_most_once_more_for_each_lost_reply() {
    let (tally, used) = check_with_lost_replies(OnFailure::Open).await;
    tally.assert_open();
    let (admitted, unknown) = (tally.admitted(), tally.fallen_back());
    println!("replies lost: {used} used, {admitted} admitted");
    assert!(used <= admitted + unknown, "{used} used, {admitted} admitted, {unknown} unknown");
    assert!(used >= tally.exactly_admitted());
}

/// The outcome of a late reply is known in the end, so its charge is refunded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn charges_of_late_replies_are_refunded() {
    let server = RedisServer::start(&[]).unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let short_deadline = RedisStoreSettings { deadline: Duration::from_millis(50), ..without_breaker() };
    let mut long_reply_timeout = standalone_options(proxy.address());
    // Late replies must not end the connection.
    long_reply_timeout.silence = Duration::from_secs(30);
    let store = connect(&long_reply_timeout, short_deadline).await;
    let limit = store.limit("late", log_without_expiry(10_000), options(OnFailure::Closed)).unwrap();
    let direct = connect(&standalone_options(server.address()), long_deadline()).await;
    let direct_limit = direct.limit("late", log_without_expiry(10_000), options(OnFailure::Closed)).unwrap();
    proxy.set(Fault::Delay(Duration::from_millis(200)));
    let mut tally = Tally::default();
    for _ in 0..CHECKS {
        tally.0.push(check(&store, &limit, "alice").await);
    }
    tally.report("late replies");
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
    println!("late replies: {} charges refunded", store.stats().refunds);
    assert_eq!(left, 0, "charges of late replies were not refunded");
    assert_eq!(check(&direct, &direct_limit, "alice").await.source, Source::Exact);
}
