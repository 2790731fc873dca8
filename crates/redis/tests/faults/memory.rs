//! A server out of memory.

use std::time::Duration;

use tollgate_redis::{BreakerSettings, RedisStoreSettings, StoreEvent};
use tollgate_store::{OnFailure, Store};
use tollgate_testbed::{RedisServer, Reply};

use crate::support::{
    Load, check, connect, connect_recording, default_settings, failures, log_without_expiry, long_deadline, options,
    standalone_options, until, until_exact, used,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_limit_refuses_while_the_server_is_out_of_memory_and_recovers() {
    let server = RedisServer::start(&["--maxmemory", "8mb", "--maxmemory-policy", "noeviction"]).unwrap();
    let store = connect(&standalone_options(server.address()), default_settings()).await;
    let limit = store.limit("full", log_without_expiry(1_000_000), options(OnFailure::Closed)).unwrap();
    let load = Load::start(&store, &limit, &["alice"], 8);
    load.until_admitted(200).await;
    fill(&server);
    until("the server is out of memory", || failures(&store, "out-of-memory") > 0).await;
    load.until_fallen_back(500).await;
    let out_of_memory = failures(&store, "out-of-memory");
    free(&server);
    let back = until_exact(&store, &limit, "alice").await;
    load.until_admitted(200).await;
    let tally = load.end().await;
    tally.report("out of memory");
    tally.assert_closed();
    let used = used(&store, &limit, "alice").await;
    println!("out of memory: {out_of_memory} calls, exact again after {back:?}, {used} used");
    // A call that fails for lack of memory has written nothing. Only charges of late replies that are not refunded yet
    // may still be counted.
    assert!((tally.admitted()..=tally.admitted() + tally.fallen_back()).contains(&used), "{used} used");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn breaker_stays_open_while_an_idle_server_is_out_of_memory() {
    let server = RedisServer::start(&["--maxmemory", "8mb", "--maxmemory-policy", "noeviction"]).unwrap();
    let settings =
        RedisStoreSettings { breaker: BreakerSettings { trials: 1, ..BreakerSettings::default() }, ..long_deadline() };
    let (store, events) = connect_recording(&standalone_options(server.address()), settings).await;
    let limit = store.limit("full", log_without_expiry(1_000_000), options(OnFailure::Open)).unwrap();
    fill(&server);
    for _ in 0..20 {
        check(&store, &limit, "alice").await;
    }
    assert_eq!(store.stats().breakers_opened, 1, "{:?}", store.stats());
    // Without traffic, a probe that only reads would close it after 100 ms, and a health check 500 ms later.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(store.stats().breakers_closed, 0, "{:?}", events.lock().unwrap());
    free(&server);
    until("the breaker closes", || store.stats().breakers_closed == 1).await;
    let events = events.lock().unwrap().clone();
    let [.., StoreEvent::BreakerOpened { cause: "out-of-memory", .. }, StoreEvent::BreakerClosed { .. }] = &events[..]
    else {
        panic!("{events:?}")
    };
    let has_probe_keys = || server.command(&["KEYS", "tollgate:.probe:*"]).unwrap() != Reply::Array(Vec::new());
    until("the keys of probes have expired", || !has_probe_keys()).await;
}

/// Writes until the server is out of memory.
fn fill(server: &RedisServer) {
    let filler = "x".repeat(100_000);
    let is_accepted = |number: u32| {
        let reply = server.command(&["SET", &format!("filler-{number}"), &filler]).unwrap();
        !matches!(reply, Reply::Error(_))
    };
    let written = (0..1_000).take_while(|number| is_accepted(*number)).count();
    assert!((10..1_000).contains(&written), "full after {written} times 100 kB");
    // There may still be memory for many small values.
    server.command(&["CONFIG", "SET", "maxmemory", "7mb"]).unwrap();
}

fn free(server: &RedisServer) {
    let Reply::Array(keys) = server.command(&["KEYS", "filler-*"]).unwrap() else {
        panic!("KEYS: the reply is not an array")
    };
    for key in keys.iter().filter_map(Reply::text) {
        server.command(&["DEL", key]).unwrap();
    }
}
