//! A flood of keys that come once neither grows the store nor frees who is blocked.

#![allow(clippy::unwrap_used)]

mod quotas;

use std::sync::Mutex;

use quotas::every_algorithm;
use tollgate_store::{AlgorithmKind, Capacity, ManualClock, MemoryOptions, MemoryStore, Quota, WhenFull};

const SECOND_NS: u64 = 1_000_000_000;
/// A time at which windows of an hour begin.
const START_NS: u64 = 300_000 * 3600 * SECOND_NS;
/// What the process may grow by beside the store: the last large page of a table, and the test's own.
const SLACK_BYTES: usize = 6 << 20;

/// What a process holds cannot be told apart by thread, so floods take turns.
static ALONE: Mutex<()> = Mutex::new(());

/// Checks so many distinct keys once each, over a minute, in a store where one key is blocked.
fn flood(quota: Quota, capacity: usize, keys: u64) {
    let _alone = ALONE.lock();
    let rss_before = resident_bytes();
    let clock = ManualClock::at(START_NS);
    let options = MemoryOptions { capacity: Capacity::Entries(capacity), when_full: WhenFull::EvictFullest };
    let store = MemoryStore::with(options, clock.clone()).unwrap();
    let limit = store.limit("login", quota).unwrap();
    while store.check(&limit, "blocked", 1).is_allowed() {}
    for key in 0..keys {
        assert!(store.check(&limit, &key, 1).is_allowed(), "a key never seen has its whole budget");
        if key % (keys / 60) == 0 {
            clock.advance(SECOND_NS);
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

/// What the process holds in memory, where the system tells.
fn resident_bytes() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    Some(line.split_ascii_whitespace().nth(1)?.parse::<usize>().ok()? << 10)
}

#[test]
fn half_a_million_keys_change_nothing() {
    for quota in every_algorithm("5/h") {
        // A log is forgotten in the order of its last charge, and permits that are out never.
        if matches!(quota.kind(), AlgorithmKind::TokenBucket | AlgorithmKind::FixedWindow) {
            flood(quota, 50_000, 500_000);
        }
    }
}

#[test]
#[ignore = "50 million keys: seconds in a release build, minutes without"]
fn fifty_million_keys_change_nothing() {
    flood(Quota::token_bucket("5/h".parse().unwrap()).unwrap(), 1_000_000, 50_000_000);
}
