//! Keys with values that tollgate has not written.

use tollgate_store::{OnFailure, Source, Store};
use tollgate_testbed::RedisServer;

use crate::support::{bucket_without_refill, check, connect, long_deadline, options, standalone_options};

const CHECKS: u64 = 100;

/// Checks a bad key and a good key in turn. The bad one is made by a command, and its checks must fail for `cause`.
async fn check_bad_and_good_key(make_bad: &[&str], cause: &str) {
    let server = RedisServer::start(&[]).unwrap();
    let store = connect(&standalone_options(server.address()), long_deadline()).await;
    let limit = store.limit("bad", bucket_without_refill(1_000_000), options(OnFailure::Closed)).unwrap();
    server.command(make_bad).unwrap();
    for _ in 0..CHECKS {
        let bad = check(&store, &limit, "mallory").await;
        assert_eq!((bad.passed, bad.source), (false, Source::Fallback));
        let good = check(&store, &limit, "alice").await;
        assert_eq!((good.passed, good.source), (true, Source::Exact), "{:?}", store.stats());
    }
    let stats = store.stats();
    assert_eq!(stats.breakers_opened, 0, "{stats:?}");
    let counted: u64 = stats.failures.iter().filter(|(name, _)| *name == cause).map(|(_, count)| count).sum();
    assert_eq!(counted, CHECKS, "{stats:?}");
    // A reset repairs the key.
    store.admin().unwrap().reset(&[(&limit, b"mallory".as_slice())]).await.unwrap();
    assert_eq!(check(&store, &limit, "mallory").await.source, Source::Exact);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn key_of_another_type_fails_only_its_own_requests() {
    check_bad_and_good_key(&["LPUSH", "tollgate:bad:{mallory}", "entry"], "wrong-type").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_value_fails_only_its_own_requests() {
    check_bad_and_good_key(&["SET", "tollgate:bad:{mallory}", "\u{7}"], "unreadable").await;
}
