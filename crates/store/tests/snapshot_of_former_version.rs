//! A snapshot of the previous version is restored without a refill.

#![allow(clippy::unwrap_used)]

use tollgate_store::{Capacity, ManualClock, MemoryOptions, MemoryStore, Queue, Quota, Rate};

/// Seven of ten were used under each rule, and two of the queue, for the user `a`.
const SNAPSHOT: &[u8] = include_bytes!("snapshots/former-version.snapshot");
/// The time when it was written.
const WRITTEN_NS: u64 = 1_794_865_123_594_840_382;

#[test]
fn counts_continue_from_a_snapshot_of_the_previous_version() {
    let options = MemoryOptions { capacity: Capacity::Entries(100), ..MemoryOptions::default() };
    let clock = ManualClock::at(WRITTEN_NS);
    let (store, restored) = MemoryStore::restore(options, clock, WRITTEN_NS, &mut &*SNAPSHOT).unwrap();
    assert_eq!((restored.keys, restored.lost), (10, 0));
    let rate: Rate = "10/h".parse().unwrap();
    let remaining = |scope: &str, quota: Quota| {
        let limit = store.limit(scope, quota).unwrap();
        store.peek(&limit, &b"a"[..]).remaining
    };
    let bucket = Quota::token_bucket(rate).unwrap();
    assert_eq!(remaining("bucket", bucket), 3);
    assert_eq!(remaining("leaky", Quota::leaky_bucket(rate).unwrap()), 3);
    assert_eq!(remaining("fixed", Quota::fixed_window(rate).unwrap()), 3);
    assert_eq!(remaining("counter", Quota::sliding_window_counter(rate).unwrap()), 3);
    assert_eq!(remaining("log", Quota::sliding_window_log(rate).unwrap()), 3);
    // The first limit of a list had the name of its period.
    assert_eq!(remaining("list/1h", bucket), 3);
    assert_eq!(remaining("list/1day", Quota::token_bucket("100/day".parse().unwrap()).unwrap()), 93);
    let queue = Quota::leaky_queue("1/h".parse().unwrap(), Queue { size: 4, max_wait: None }).unwrap();
    assert_eq!(remaining("queue", queue), 2);
    // Under another algorithm, too.
    assert_eq!(remaining("bucket", Quota::sliding_window_log(rate).unwrap()), 3);
}

#[test]
fn store_from_a_former_snapshot_writes_readable_snapshots() {
    let options = MemoryOptions { capacity: Capacity::Entries(100), ..MemoryOptions::default() };
    let quota = Quota::token_bucket("10/h".parse().unwrap()).unwrap();
    let mut snapshot = SNAPSHOT.to_vec();
    for remaining in [2, 1, 0] {
        let clock = ManualClock::at(WRITTEN_NS);
        let (store, _) = MemoryStore::restore(options, clock, WRITTEN_NS, &mut &*snapshot).unwrap();
        let limit = store.limit("bucket", quota).unwrap();
        assert_eq!(store.check(&limit, &b"a"[..], 1).remaining, remaining);
        snapshot.clear();
        store.write_snapshot(WRITTEN_NS, &mut snapshot).unwrap();
    }
}
