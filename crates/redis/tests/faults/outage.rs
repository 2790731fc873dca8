//! A server that is gone for a while.

use tokio::time::sleep;
use tollgate_store::{OnFailure, Store};
use tollgate_testbed::RedisServer;

use crate::support::{Load, PROMPTLY, connect, eager, endless_bucket, options, standalone_options, until_exact, used};

const BURST: u64 = 1_000_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_and_restarted_is_found_again() {
    let mut server = RedisServer::start(&[]).unwrap();
    let store = connect(&standalone_options(server.address()), eager()).await;
    let limit = store.limit("killed", endless_bucket(BURST), options(OnFailure::Closed)).unwrap();
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
    // The server began anew, so only what came later is counted.
    let counted = used <= tally.exactly_admitted() + tally.fallen_back();
    assert!(used >= 200 && counted, "{used} used");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stands_still_is_waited_for_by_nobody() {
    const SHARE: u64 = BURST / 1000;
    let server = RedisServer::start(&[]).unwrap();
    let store = connect(&standalone_options(server.address()), eager()).await;
    let local = options(OnFailure::Local { share: (1, 1000) });
    let limit = store.limit("paused", endless_bucket(BURST), local).unwrap();
    let load = Load::start(&store, &limit, &["alice"], 8);
    load.until_admitted(200).await;
    server.pause().unwrap();
    // Long enough that who waits for the server is found out.
    sleep(PROMPTLY * 3 / 2).await;
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
