//! Keys whose values are nothing that tollgate has written.

use tollgate_store::{OnFailure, Source, Store};
use tollgate_testbed::RedisServer;

use crate::support::{check, connect, endless_bucket, options, patient, standalone_options};

const CHECKS: u64 = 100;

/// Checks of a bad key, each followed by one of a good key.
async fn beside(make_bad: &[&str], kind: &str) {
    let server = RedisServer::start(&[]).unwrap();
    let store = connect(&standalone_options(server.address()), patient()).await;
    let limit = store.limit("bad", endless_bucket(1_000_000), options(OnFailure::Closed)).unwrap();
    server.command(make_bad).unwrap();
    for _ in 0..CHECKS {
        let bad = check(&store, &limit, "mallory").await;
        assert_eq!((bad.passed, bad.source), (false, Source::Fallback));
        let good = check(&store, &limit, "alice").await;
        assert_eq!((good.passed, good.source), (true, Source::Exact), "{:?}", store.stats());
    }
    let stats = store.stats();
    assert_eq!(stats.breakers_opened, 0, "{stats:?}");
    let counted: u64 = stats.troubles.iter().filter(|(name, _)| *name == kind).map(|(_, count)| count).sum();
    assert_eq!(counted, CHECKS, "{stats:?}");
    // An operator's reset makes it as good as new.
    store.admin().unwrap().reset(&[(&limit, b"mallory".as_slice())]).await.unwrap();
    assert_eq!(check(&store, &limit, "mallory").await.source, Source::Exact);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_another_type_fails_its_own_requests_only() {
    beside(&["LPUSH", "tollgate:bad:{mallory}", "entry"], "wrong-type").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_cannot_be_read_fails_its_own_requests_only() {
    beside(&["SET", "tollgate:bad:{mallory}", "\u{7}"], "unreadable").await;
}
