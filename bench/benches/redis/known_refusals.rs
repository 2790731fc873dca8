//! Cached refusals need no call.

use std::time::Instant;

use tollgate_redis::RedisStoreSettings;
use tollgate_store::{LimitOptions, Quota, Refusals, Source, Store};
use tollgate_testbed::{RedisServer, Reply};

use crate::callers::{charge, connect, key};
use crate::effort::Effort;
use crate::goals::Goals;
use crate::pinned::start_server;

const KEYS: usize = 1_000;

pub(crate) async fn measure(effort: Effort, goals: &mut Goals) {
    eprintln!("cached refusals");
    let server = start_server();
    let store = connect(&server.address().to_string(), RedisStoreSettings::default()).await;
    let quota = Quota::token_bucket("1/day burst 1".parse().unwrap()).unwrap();
    let options = LimitOptions { refusals: Refusals::Final, ..LimitOptions::default() };
    let limit = store.limit("refused", quota, options).unwrap();
    let keys: Vec<String> = (0..KEYS).map(key).collect();
    // The first charge takes all tokens, and the server refuses the second.
    for key in keys.iter().chain(&keys) {
        store.check_all(&[charge(&limit, key)]).await;
    }
    let before = calls(&server);
    let (begun, mut decisions) = (Instant::now(), 0_u64);
    while begun.elapsed() < effort.turn() {
        for key in &keys {
            let outcome = store.check_all(&[charge(&limit, key)]).await;
            assert!(!outcome.passed && outcome.source == Source::Cached, "{outcome:?}");
        }
        decisions += KEYS as u64;
    }
    let per_second = decisions as f64 / begun.elapsed().as_secs_f64();
    let calls = calls(&server) - before;
    println!("\n| cached refusals, 1,000 keys, one thread | |\n| --- | ---: |");
    println!("| decisions a second | {per_second:.0} |");
    println!("| calls of the script for {decisions} decisions, as the server counts | {calls} |");
    goals.add("cached refusals", "no calls", &format!("{calls} calls for {decisions} decisions"), calls == 0);
}

/// Returns the number of script calls, as the server counts them.
fn calls(server: &RedisServer) -> u64 {
    let Reply::Text(text) = server.command(&["INFO", "commandstats"]).unwrap() else { panic!("no figures") };
    let scripts = text.lines().filter(|line| line.starts_with("cmdstat_eval"));
    scripts.filter_map(|line| line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok()).sum()
}
