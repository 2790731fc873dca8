//! A server that has no memory left.

use tollgate_store::{OnFailure, Store};
use tollgate_testbed::{RedisServer, Reply};

use crate::support::{
    Load, connect, eager, endless_log, options, standalone_options, troubles, until, until_exact, used,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_refuses_what_is_closed_and_is_used_again_when_it_has_room() {
    let server = RedisServer::start(&["--maxmemory", "8mb", "--maxmemory-policy", "noeviction"]).unwrap();
    let store = connect(&standalone_options(server.address()), eager()).await;
    let limit = store.limit("full", endless_log(1_000_000), options(OnFailure::Closed)).unwrap();
    let load = Load::start(&store, &limit, &["alice"], 8);
    load.until_admitted(200).await;
    fill(&server);
    until("the server says that it is full", || troubles(&store, "out-of-memory") > 0).await;
    load.until_fallen_back(500).await;
    let out_of_memory = troubles(&store, "out-of-memory");
    free(&server);
    let back = until_exact(&store, &limit, "alice").await;
    load.until_admitted(200).await;
    let tally = load.end().await;
    tally.report("out of memory");
    tally.assert_closed();
    let used = used(&store, &limit, "alice").await;
    println!("out of memory: {out_of_memory} calls, exact again after {back:?}, {used} used");
    // A refusal for want of memory comes before anything is written. Only answers that came too late,
    // and were given back too late for this look, may still be counted.
    assert!((tally.admitted()..=tally.admitted() + tally.fallen_back()).contains(&used), "{used} used");
}

/// Writes until the server has no memory left.
fn fill(server: &RedisServer) {
    let filler = "x".repeat(100_000);
    let is_accepted = |number: u32| {
        let reply = server.command(&["SET", &format!("filler-{number}"), &filler]).unwrap();
        !matches!(reply, Reply::Error(_))
    };
    let written = (0..1_000).take_while(|number| is_accepted(*number)).count();
    assert!((10..1_000).contains(&written), "full after {written} times 100 kB");
    // The last piece may have left room for many small ones.
    server.command(&["CONFIG", "SET", "maxmemory", "7mb"]).unwrap();
}

fn free(server: &RedisServer) {
    let Reply::Array(keys) = server.command(&["KEYS", "filler-*"]).unwrap() else { panic!("no list of keys") };
    for key in keys.iter().filter_map(Reply::text) {
        server.command(&["DEL", key]).unwrap();
    }
}
