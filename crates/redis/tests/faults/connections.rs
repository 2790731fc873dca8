//! Connections that go wrong while the server is well: a network that fails, and a password that is not accepted.

use tollgate_store::{OnFailure, Store};
use tollgate_testbed::{Fault, FaultProxy, RedisServer, RedisSetup};

use crate::support::{
    Load, Tally, begin_to_connect, connect, eager, endless_bucket, endless_log, options, standalone_options, troubles,
    until, until_exact, used,
};

const BURST: u64 = 1_000_000;

/// Checks under load while the network has a fault. Returns what they said, and what the server counted.
async fn under(fault: Fault, on_failure: OnFailure) -> (Tally, u64) {
    let server = RedisServer::start(&[]).unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let store = connect(&standalone_options(proxy.address()), eager()).await;
    let limit = store.limit("network", endless_bucket(BURST), options(on_failure)).unwrap();
    let load = Load::start(&store, &limit, &["alice"], 8);
    load.until_admitted(200).await;
    proxy.set(fault);
    load.until_fallen_back(500).await;
    proxy.set(Fault::Pass);
    let back = until_exact(&store, &limit, "alice").await;
    load.until_admitted(200).await;
    let tally = load.end().await;
    tally.report(&format!("{fault:?}"));
    let used = used(&store, &limit, "alice").await;
    println!("{fault:?}: exact again after {back:?}, {used} used, {} admitted", tally.admitted());
    (tally, used)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_that_swallows_everything_lets_pass_what_is_open() {
    let (tally, used) = under(Fault::BlackHole, OnFailure::Open).await;
    tally.assert_open();
    // What passed uncounted is charged later, unless that is what was swallowed.
    assert!((tally.exactly_admitted()..=tally.admitted() + tally.fallen_back()).contains(&used), "{used} used");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_reset_refuse_what_is_closed() {
    let (tally, used) = under(Fault::Reset, OnFailure::Closed).await;
    tally.assert_closed();
    assert!((tally.admitted()..=tally.admitted() + tally.fallen_back()).contains(&used), "{used} used");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_end_halfway_admit_by_share_what_is_local() {
    let share = (1, 10_000);
    let (tally, used) = under(Fault::HalfClose, OnFailure::Local { share }).await;
    assert!(tally.admitted_in_fallback() <= BURST / 10_000, "{} by share", tally.admitted_in_fallback());
    assert!((tally.exactly_admitted()..=tally.admitted() + tally.fallen_back()).contains(&used), "{used} used");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_the_stores_trouble_until_somebody_repairs_it() {
    const SHARE: u64 = 10;
    let setup = RedisSetup { password: Some("the server's"), ..RedisSetup::default() };
    let server = RedisServer::start_with(setup).unwrap();
    let mut redis = standalone_options(server.address());
    redis.password = Some("the store's".into());
    let store = begin_to_connect(&redis, eager());
    let local = options(OnFailure::Local { share: (1, 100) });
    let limit = store.limit("password", endless_log(SHARE * 100), local).unwrap();
    let load = Load::start(&store, &limit, &["alice"], 8);
    load.until_fallen_back(500).await;
    until("the server refuses the password", || troubles(&store, "authentication") > 0).await;
    let refused = troubles(&store, "authentication");
    assert!(!store.is_ready());
    server.command(&["ACL", "SETUSER", "default", ">the store's"]).unwrap();
    let back = until_exact(&store, &limit, "alice").await;
    load.until_admitted(50).await;
    let tally = load.end().await;
    tally.report("wrong password");
    println!("wrong password: {refused} calls, exact again after {back:?}");
    assert!(tally.admitted_in_fallback() <= SHARE, "{} by share", tally.admitted_in_fallback());
    let used = used(&store, &limit, "alice").await;
    assert!((tally.exactly_admitted()..=tally.admitted() + tally.fallen_back()).contains(&used), "{used} used");
}
