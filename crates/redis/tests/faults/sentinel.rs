//! Failover by sentinels after the death of a primary.

use std::time::Duration;

use tokio::time::Instant;
use tollgate_redis::RedisOptions;
use tollgate_store::{OnFailure, Store};
use tollgate_testbed::SentinelTrio;

use crate::support::{Load, bucket_without_refill, connect, default_settings, options, until_exact, used};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_recovers_on_the_new_primary_after_a_failover() {
    const BURST: u64 = 1_000_000;
    let mut trio = SentinelTrio::start().unwrap();
    let sentinels = trio.addresses().iter().map(ToString::to_string).collect();
    let store = connect(&RedisOptions::sentinel(sentinels, SentinelTrio::PRIMARY), default_settings()).await;
    let limit = store.limit("watched", bucket_without_refill(BURST), options(OnFailure::Closed)).unwrap();
    let load = Load::start(&store, &limit, &["alice"], 8);
    load.until_admitted(500).await;
    let killed_at = Instant::now();
    trio.servers()[0].kill().unwrap();
    load.until_fallen_back(100).await;
    until_exact(&store, &limit, "alice").await;
    let back = killed_at.elapsed();
    load.until_admitted(200).await;
    let tally = load.end().await;
    tally.report("failover by sentinels");
    tally.assert_closed();
    let used = used(&store, &limit, "alice").await;
    let lost = tally.admitted().saturating_sub(used);
    let in_last_second = tally.exactly_admitted_between(killed_at - Duration::from_secs(1), killed_at);
    println!(
        "sentinels: exact again {back:?} after the kill, {lost} lost, at most {in_last_second} in the last second"
    );
    assert!(lost <= in_last_second.min(BURST), "{lost} lost");
    assert!(used <= tally.admitted() + tally.fallen_back(), "{used} used");
}
