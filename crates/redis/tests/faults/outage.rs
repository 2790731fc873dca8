//! A server that is temporarily unavailable.

use tokio::time::sleep;
use tollgate_store::{OnFailure, Store};
use tollgate_testbed::RedisServer;

use crate::support::{
    Load, MAX_LATENCY, bucket_without_refill, connect, default_settings, options, standalone_options, until_exact, used,
};

const BURST: u64 = 1_000_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_limit_refuses_while_the_server_is_killed_and_recovers() {
    let mut server = RedisServer::start(&[]).unwrap();
    let store = connect(&standalone_options(server.address()), default_settings()).await;
    let limit = store.limit("killed", bucket_without_refill(BURST), options(OnFailure::Closed)).unwrap();
    let load = Load::start(&store, &limit, &["alice"], 8);
    load.until_admitted(200).await;
    server.kill().unwrap();
    load.until_fallen_back(500).await;
    server.restart().unwrap();
    let back = until_exact(&store, &limit, "alice").await;
    load.until_admitted(200).await;
    let tally = load.end().await;
    tally.report("killed and restarted");
    println!("killed and restarted: exact again after {back:?}");
    tally.assert_closed();
    let used = used(&store, &limit, "alice").await;
    // The server restarted without data, so only later charges are counted.
    let counted = used <= tally.exactly_admitted() + tally.fallen_back();
    assert!(used >= 200 && counted, "{used} used");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checks_do_not_wait_for_a_paused_server() {
    const SHARE: u64 = BURST / 1000;
    let server = RedisServer::start(&[]).unwrap();
    let store = connect(&standalone_options(server.address()), default_settings()).await;
    let local = options(OnFailure::Local { share: (1, 1000) });
    let limit = store.limit("paused", bucket_without_refill(BURST), local).unwrap();
    let load = Load::start(&store, &limit, &["alice"], 8);
    load.until_admitted(200).await;
    server.pause().unwrap();
    // Long enough to detect a check that waits for the server.
    sleep(MAX_LATENCY * 3 / 2).await;
    load.until_fallen_back(SHARE + 200).await;
    server.resume().unwrap();
    let back = until_exact(&store, &limit, "alice").await;
    load.until_admitted(200).await;
    let tally = load.end().await;
    tally.report("stopped and continued");
    println!("stopped and continued: exact again after {back:?}");
    assert!(tally.admitted_in_fallback() <= SHARE, "more than this instance's share");
    let used = used(&store, &limit, "alice").await;
    let most = tally.admitted() + tally.fallen_back();
    println!("stopped and continued: {used} used, {} admitted", tally.admitted());
    assert!((tally.exactly_admitted()..=most).contains(&used), "{used} used");
}
