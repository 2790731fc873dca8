//! Snapshots while threads charge the store.

#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tollgate_store::{Capacity, ManualClock, MemoryOptions, MemoryStore, Quota, WhenFull};

const START_NS: u64 = 1_790_000_000_000_000_000;
const LIMIT: u64 = 5;

fn quotas() -> [Quota; 3] {
    let rate = format!("{LIMIT}/day").parse().unwrap();
    [Quota::token_bucket(rate).unwrap(), Quota::fixed_window(rate).unwrap(), Quota::sliding_window_log(rate).unwrap()]
}

/// Each key is charged once, by an amount that follows from its number.
fn cost_of(key: u64) -> u64 {
    1 + key % LIMIT
}

/// Every key occurs once, in a table so small that slots are reassigned constantly: the key and the content of a slot
/// must have been read together.
#[test]
fn snapshot_never_mixes_two_keys() {
    const KEYS: u64 = 8_000;
    let options = MemoryOptions { capacity: Capacity::Entries(200), when_full: WhenFull::EvictLeastUsed };
    let store = MemoryStore::restorable(options, ManualClock::at(START_NS)).unwrap();
    let limits = quotas().map(|quota| store.limit(&quota.kind().to_string(), quota).unwrap());
    let (next, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut seen = 0;
    std::thread::scope(|scope| {
        let charging: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    loop {
                        let key = next.fetch_add(1, Ordering::Relaxed);
                        if key >= KEYS {
                            break;
                        }
                        for limit in &limits {
                            assert!(store.check(limit, &key, cost_of(key)).is_allowed());
                        }
                    }
                })
            })
            .collect();
        let writing = scope.spawn(|| {
            let mut snapshots = Vec::new();
            while !is_over.load(Ordering::Relaxed) && snapshots.len() < 16 {
                let mut bytes = Vec::new();
                store.write_snapshot(START_NS, &mut bytes).unwrap();
                snapshots.push(bytes);
            }
            snapshots
        });
        charging.into_iter().for_each(|thread| thread.join().unwrap());
        is_over.store(true, Ordering::Relaxed);
        for bytes in writing.join().unwrap() {
            seen += check_each(&bytes, KEYS);
        }
    });
    let mut bytes = Vec::new();
    store.write_snapshot(START_NS, &mut bytes).unwrap();
    assert!(seen + check_each(&bytes, KEYS) > 0);
}

/// Returns the number of keys in a snapshot; each must have used its own amount.
fn check_each(bytes: &[u8], keys: u64) -> usize {
    let roomy = MemoryOptions { capacity: Capacity::Entries(4_000), when_full: WhenFull::RefuseNew };
    let (store, restored) = MemoryStore::restore(roomy, ManualClock::at(START_NS), START_NS, &mut &bytes[..]).unwrap();
    assert_eq!(restored.lost, 0);
    let mut found = 0;
    for quota in quotas() {
        let limit = store.limit(&quota.kind().to_string(), quota).unwrap();
        for key in 0..keys {
            let used = LIMIT - store.peek(&limit, &key).remaining;
            assert!(used == 0 || used == cost_of(key), "key {key} has used {used} of {quota:?}");
            found += usize::from(used > 0);
        }
    }
    found
}

/// Charges during the snapshot may be in it or not; charges before it are.
#[test]
fn charges_before_a_snapshot_are_in_it() {
    const KEYS: u64 = 500;
    let options = MemoryOptions { capacity: Capacity::Entries(4_000), when_full: WhenFull::RefuseNew };
    let store = MemoryStore::restorable(options, ManualClock::at(START_NS)).unwrap();
    let limits = quotas().map(|quota| store.limit(&quota.kind().to_string(), quota).unwrap());
    let charge_all = || {
        for key in 0..KEYS {
            limits.iter().for_each(|limit| assert!(store.check(limit, &key, 1).is_allowed()));
        }
    };
    charge_all();
    let mut bytes = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(charge_all);
        store.write_snapshot(START_NS, &mut bytes).unwrap();
    });
    let (store, _) = MemoryStore::restore(options, ManualClock::at(START_NS), START_NS, &mut &bytes[..]).unwrap();
    for quota in quotas() {
        let limit = store.limit(&quota.kind().to_string(), quota).unwrap();
        for key in 0..KEYS {
            assert!((1..=2).contains(&(LIMIT - store.peek(&limit, &key).remaining)));
        }
    }
}
