//! A cluster that is used as a single server.

use tollgate_redis::{BreakerState, StoreEvent};
use tollgate_store::{Charge, OnFailure, Source, Store};
use tollgate_testbed::RedisCluster;

use crate::support::{
    check, connect_recording, failures, log_without_expiry, long_deadline, options, slot_of, standalone_options,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_in_standalone_mode_is_reported_with_the_repair() {
    let mut cluster = RedisCluster::start().unwrap();
    let address = cluster.addresses()[0];
    let (store, events) = connect_recording(&standalone_options(address), long_deadline()).await;
    let reports = || -> Vec<String> {
        let events = events.lock().unwrap();
        events.iter().filter(|event| matches!(event, StoreEvent::WrongMode { .. })).map(ToString::to_string).collect()
    };
    let limit = store.limit("mode", log_without_expiry(100), options(OnFailure::Open)).unwrap();
    // A key of another node: the redirection is followed, and reported.
    let mut users = (0..).map(|number| format!("user-{number}"));
    let key = users
        .find(|user| {
            let slot = slot_of(&cluster.nodes()[0], user);
            cluster.owner(slot).unwrap() != 0
        })
        .unwrap();
    let checked = check(&store, &limit, &key).await;
    assert_eq!((checked.decision.remaining, checked.source), (99, Source::Exact));
    assert_eq!(reports().len(), 1, "{:?}", events.lock().unwrap());
    assert!(reports()[0].contains(&address.to_string()) && reports()[0].contains("`mode: cluster`"), "{:?}", reports());

    // Keys in two slots fail, without a failure of the server.
    let own = store.limit("own", log_without_expiry(100), options(OnFailure::Open)).unwrap();
    for _ in 0..20 {
        let outcome = store.check_all(&[Charge::new(&limit, b"alice", 1), Charge::new(&own, b"bob", 1)]).await;
        assert_eq!(outcome.source, Source::Fallback);
    }
    assert_eq!(failures(&store, "wrong-mode"), 20, "{:?}", store.stats());
    assert_eq!(failures(&store, "protocol"), 0, "{:?}", store.stats());
    assert!(store.stats().breakers.iter().all(|(_, state)| *state == BreakerState::Closed), "{:?}", store.stats());
    assert_eq!(reports().len(), 1, "reported once");
}
