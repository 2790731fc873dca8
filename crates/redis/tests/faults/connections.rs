//! Faults of connections to a healthy server: network faults, and a wrong password.

use tollgate_store::{OnFailure, Store};
use tollgate_testbed::{Fault, FaultProxy, RedisServer, RedisSetup};

use crate::support::{
    Load, Tally, bucket_without_refill, connect, default_settings, failures, log_without_expiry, options,
    standalone_options, start_connecting, until, until_exact, used,
};

const BURST: u64 = 1_000_000;

/// Checks under load during a network fault. Returns the outcomes, and the usage counted by the server.
async fn load_during(fault: Fault, on_failure: OnFailure) -> (Tally, u64) {
    let server = RedisServer::start(&[]).unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let store = connect(&standalone_options(proxy.address()), default_settings()).await;
    let limit = store.limit("network", bucket_without_refill(BURST), options(on_failure)).unwrap();
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
async fn open_limit_admits_all_checks_during_a_black_hole() {
    let (tally, used) = load_during(Fault::BlackHole, OnFailure::Open).await;
    tally.assert_open();
    // Requests admitted by the fallback are charged later, unless the call that charges them was discarded.
    assert!((tally.exactly_admitted()..=tally.admitted() + tally.fallen_back()).contains(&used), "{used} used");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_limit_refuses_all_checks_while_connections_are_reset() {
    let (tally, used) = load_during(Fault::Reset, OnFailure::Closed).await;
    tally.assert_closed();
    assert!((tally.admitted()..=tally.admitted() + tally.fallen_back()).contains(&used), "{used} used");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn local_limit_admits_its_share_while_connections_are_half_closed() {
    let share = (1, 10_000);
    let (tally, used) = load_during(Fault::HalfClose, OnFailure::Local { share }).await;
    assert!(tally.admitted_in_fallback() <= BURST / 10_000, "{} by share", tally.admitted_in_fallback());
    assert!((tally.exactly_admitted()..=tally.admitted() + tally.fallen_back()).contains(&used), "{used} used");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_password_falls_back_until_the_server_accepts_it() {
    const SHARE: u64 = 10;
    let setup = RedisSetup { password: Some("the server's"), ..RedisSetup::default() };
    let server = RedisServer::start_with(setup).unwrap();
    let mut redis = standalone_options(server.address());
    redis.password = Some("the store's".into());
    let store = start_connecting(&redis, default_settings());
    let local = options(OnFailure::Local { share: (1, 100) });
    let limit = store.limit("password", log_without_expiry(SHARE * 100), local).unwrap();
    let load = Load::start(&store, &limit, &["alice"], 8);
    load.until_fallen_back(500).await;
    until("the server refuses the password", || failures(&store, "authentication") > 0).await;
    let refused = failures(&store, "authentication");
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
