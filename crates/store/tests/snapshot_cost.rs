//! The cost of a snapshot. A measurement, not a test, for a quiet machine: `cargo test --release -p tollgate-store
//! --test snapshot_cost -- --ignored --nocapture`

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::io::{BufReader, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tollgate_store::{Capacity, MemoryOptions, MemoryStore, Quota, RealClock, WhenFull};

fn options(keys: usize) -> MemoryOptions {
    MemoryOptions { capacity: Capacity::Entries(keys), when_full: WhenFull::EvictLeastUsed }
}

fn wall_ns() -> u64 {
    u64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos()).unwrap()
}

#[test]
#[ignore = "a measurement"]
fn print_time_and_size_of_snapshots() {
    let path = std::env::temp_dir().join(format!("tollgate-snapshot-cost-{}", std::process::id()));
    for keys in [1_000_000_u64, 10_000_000] {
        for quota in [Quota::token_bucket("100/day".parse().unwrap()), Quota::fixed_window("100/day".parse().unwrap())]
        {
            let quota = quota.unwrap();
            let store = MemoryStore::restorable(options(keys as usize), RealClock::new()).unwrap();
            let limit = store.limit("scope", quota).unwrap();
            (0..keys).for_each(|key| _ = store.check(&limit, &key, 1));
            let quiet = percentiles(|| false, &store, &limit, keys);
            let is_over = AtomicBool::new(false);
            let (written, took, busy) = std::thread::scope(|scope| {
                let writing = scope.spawn(|| {
                    let begun = Instant::now();
                    let mut file = std::fs::File::create(&path).unwrap();
                    let written = store.write_snapshot(wall_ns(), &mut file).unwrap();
                    file.flush().unwrap();
                    file.sync_all().unwrap();
                    let took = begun.elapsed();
                    is_over.store(true, Ordering::Relaxed);
                    (written, took)
                });
                let busy = percentiles(|| is_over.load(Ordering::Relaxed), &store, &limit, keys);
                let (written, took) = writing.join().unwrap();
                (written, took, busy)
            });
            let begun = Instant::now();
            let mut file = BufReader::new(std::fs::File::open(&path).unwrap());
            let (_, restored) =
                MemoryStore::restore(options(keys as usize), RealClock::new(), wall_ns(), &mut file).unwrap();
            println!(
                "{:?}: {} keys, {} bytes, written in {took:?} (with fsync), restored {} in {:?}; a check alone (p50, p99, p99.9, max) {quiet:?}, meanwhile {busy:?}",
                quota.kind(),
                written.keys,
                written.bytes,
                restored.keys,
                begun.elapsed(),
            );
        }
    }
    std::fs::remove_file(&path).unwrap();
}

/// Returns percentiles of single checks, timed one by one until `is_over` or a million.
fn percentiles(
    is_over: impl Fn() -> bool,
    store: &MemoryStore,
    limit: &tollgate_store::Limit,
    keys: u64,
) -> [Duration; 4] {
    let mut took = Vec::with_capacity(1_000_000);
    let mut key = 0_u64;
    while took.len() < 1_000_000 && !is_over() {
        key = (key.wrapping_mul(6_364_136_223_846_793_005)).wrapping_add(1_442_695_040_888_963_407);
        let number = (key >> 20) % keys;
        let begun = Instant::now();
        std::hint::black_box(store.check(limit, &number, 1));
        took.push(begun.elapsed());
    }
    took.sort_unstable();
    let at = |per_mille: usize| took[(took.len() - 1) * per_mille / 1000];
    [at(500), at(990), at(999), at(1000)]
}
