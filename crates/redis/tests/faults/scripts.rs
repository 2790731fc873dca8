//! A server whose script cache is flushed.

use tollgate_store::{OnFailure, Store};
use tollgate_testbed::RedisServer;

use crate::support::{Load, connect, log_without_expiry, long_deadline, options, standalone_options, used};

const FLUSHES: usize = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn script_flush_under_load_fails_no_check_and_loses_no_charge() {
    let server = RedisServer::start(&[]).unwrap();
    let store = connect(&standalone_options(server.address()), long_deadline()).await;
    let limit = store.limit("flushed", log_without_expiry(1_000_000), options(OnFailure::Closed)).unwrap();
    let load = Load::start(&store, &limit, &["alice", "bob", "carol"], 32);
    for _ in 0..FLUSHES {
        server.command(&["SCRIPT", "FLUSH"]).unwrap();
        load.until_admitted(20).await;
    }
    let tally = load.end().await;
    tally.report(&format!("{FLUSHES} times SCRIPT FLUSH"));
    assert_eq!(tally.fallen_back(), 0, "{:?}", store.stats());
    let mut counted = 0;
    for key in ["alice", "bob", "carol"] {
        counted += used(&store, &limit, key).await;
    }
    assert_eq!(counted, tally.admitted());
}
