//! What a decision costs in a region in memory, beside the memory store, in one run.

use std::time::{Duration, Instant};

use tokio::time::sleep;
use tollgate_redis::{RedisOptions, RegionSettings, RegionalMemoryStore};
use tollgate_store::{
    Charge, Limit, LimitOptions, MemoryOptions, MemoryStore, OnFailure, Quota, RealClock, Refusals, Store,
};
use tollgate_testbed::RedisServer;

use crate::effort::Effort;
use crate::instances::REGIONS;

const KEYS: usize = 100_000;
/// Far longer than a round, in which the synchronisation does not run: it shares the thread.
const EPOCH: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) async fn measure(effort: Effort) {
    let (rounds, decisions) = if effort == Effort::Quick { (3, 200_000) } else { (7, 1_000_000) };
    let global = RedisServer::start(&[]).unwrap();
    let store = region(&global).await;
    let names: Vec<String> = (0..KEYS).map(|number| format!("user-{number}")).collect();
    let quota = Quota::token_bucket("1000000/s burst 1000000".parse().unwrap()).unwrap();
    let limit = |scope: &str, regional| {
        let options = LimitOptions { on_failure: OnFailure::Closed, refusals: Refusals::Brief, lease: None, regional };
        store.limit(scope, quota, options).unwrap()
    };
    let (regional, plain) = (limit("regional", true), limit("plain", false));
    let mut times: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        times[0].push(time_of(&store, &regional, &names, decisions).await);
        times[1].push(time_of(&store, &plain, &names, decisions).await);
        // The synchronisation gets the thread meanwhile.
        sleep(PAUSE).await;
    }
    println!("\n| one decision of {KEYS} keys, through `Store::check_all` | ns |");
    println!("| --- | ---: |");
    for (what, times) in ["under a limit that regions divide", "under any other limit"].iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        println!("| {what} | {:.0} |", times[times.len() / 2]);
    }
}

async fn region(global: &RedisServer) -> RegionalMemoryStore {
    let regions = RegionSettings {
        region: REGIONS[0].0.to_owned(),
        weights: REGIONS.map(|(name, weight)| (name.to_owned(), weight)).to_vec(),
        epoch: EPOCH,
        prefix: "tollgate:".to_owned(),
        global: RedisOptions::standalone(global.address().to_string()),
    };
    let options = MemoryOptions::default();
    let memory = MemoryStore::with(options, RealClock::new()).unwrap();
    let store = RegionalMemoryStore::connect(memory, options, regions, 1, |_| {}).unwrap();
    while store.region_status().share.is_none() {
        sleep(PAUSE / 10).await;
    }
    store
}

/// Returns the nanoseconds of one decision. Keys are taken in an order that caches do not foresee.
async fn time_of(store: &RegionalMemoryStore, limit: &Limit, names: &[String], decisions: usize) -> f64 {
    let begun = Instant::now();
    let mut admitted = 0;
    for number in 0..decisions {
        let name = &names[number * 7_919 % names.len()];
        let charges = [Charge::new(limit, name.as_bytes(), 1)];
        admitted += usize::from(store.check_all(&charges).await.passed);
    }
    assert_eq!(admitted, decisions);
    begun.elapsed().as_nanos() as f64 / decisions as f64
}
