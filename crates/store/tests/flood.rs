//! A flood of keys that occur once neither grows the store nor frees blocked keys.

#![allow(clippy::unwrap_used)]

mod quotas;

use std::sync::Mutex;
use std::time::Duration;

use quotas::every_algorithm;
use tollgate_store::{AlgorithmKind, Capacity, ManualClock, MemoryOptions, MemoryStore, Quota, WhenFull};

const SECOND_NS: u64 = 1_000_000_000;
/// A time at which windows of an hour begin.
const START_NS: u64 = 300_000 * 3600 * SECOND_NS;
/// The allowed growth of the process beside the store: the last large page of a table, and the test's own memory.
const SLACK_BYTES: usize = 6 << 20;

/// Memory is measured for the whole process, so floods run one after the other.
static ALONE: Mutex<()> = Mutex::new(());

/// Checks `keys` distinct keys once each, over a minute, in a store where one key is blocked.
fn flood(quota: Quota, capacity: usize, keys: u64) {
    let _alone = ALONE.lock();
    let rss_before = resident_bytes();
    let clock = ManualClock::at(START_NS);
    let options = MemoryOptions { capacity: Capacity::Entries(capacity), when_full: WhenFull::EvictLeastUsed };
    let store = MemoryStore::with(options, clock.clone()).unwrap();
    let limit = store.limit("login", quota).unwrap();
    while store.check(&limit, "blocked", 1).is_allowed() {}
    for key in 0..keys {
        assert!(store.check(&limit, &key, 1).is_allowed(), "a key never seen has its whole budget");
        if key % (keys / 60) == 0 {
            clock.advance(Duration::from_secs(1));
        }
    }
    let stats = store.stats();
    assert!(!store.check(&limit, "blocked", 1).is_allowed(), "{quota:?}");
    assert!(stats.evictions > keys - 2 * capacity as u64, "{stats:?}");
    assert!(stats.bytes < capacity * 150, "{stats:?}");
    if let (Some(before), Some(after)) = (rss_before, resident_bytes()) {
        let grown = after.saturating_sub(before);
        assert!(grown <= stats.bytes + SLACK_BYTES, "grew by {grown} bytes for a store of {}", stats.bytes);
    }
}

/// Returns the resident memory of the process, where the system reports it.
fn resident_bytes() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    Some(line.split_ascii_whitespace().nth(1)?.parse::<usize>().ok()? << 10)
}

#[test]
fn flood_of_half_a_million_keys_neither_grows_the_store_nor_frees_blocked_keys() {
    for quota in every_algorithm("5/h") {
        // Logs are evicted in the order of their last charge, and held permits never.
        if matches!(quota.kind(), AlgorithmKind::TokenBucket | AlgorithmKind::FixedWindow) {
            flood(quota, 50_000, 500_000);
        }
    }
}

#[test]
#[ignore = "50 million keys: seconds in a release build, minutes without"]
fn flood_of_fifty_million_keys_neither_grows_the_store_nor_frees_blocked_keys() {
    flood(Quota::token_bucket("5/h".parse().unwrap()).unwrap(), 1_000_000, 50_000_000);
}
