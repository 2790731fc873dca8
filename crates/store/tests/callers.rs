//! Keys whose quotas callers choose are separate: they evict no key of the policy, use none of its quota tags, and take
//! a bounded part of the store.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::time::Duration;

use tollgate_store::{
    Capacity, ChargeVerdict, Limit, LimitError, ManualClock, MemoryOptions, MemoryStore, Quota, Rate, WhenFull,
};

const SECOND_NS: u64 = 1_000_000_000;
const HOUR_NS: u64 = 3_600 * SECOND_NS;
const YEAR_S: u64 = 365 * 86_400;
const START_NS: u64 = 300_000 * HOUR_NS;
const SCOPE: &str = "*callers";

type Store = MemoryStore;

fn store_of(entries: usize, when_full: WhenFull, clock: &ManualClock) -> Store {
    let options = MemoryOptions { capacity: Capacity::Entries(entries), when_full };
    MemoryStore::restorable(options, clock.clone()).unwrap()
}

fn quota(count: u64, period_s: u64, burst: u64) -> Quota {
    let rate = Rate::new(count, Duration::from_secs(period_s)).unwrap().with_burst(burst).unwrap();
    Quota::token_bucket(rate).unwrap().with_max_debt(0).unwrap()
}

fn of_caller(store: &Store, quota: Quota) -> Limit {
    store.caller_limit(SCOPE, quota).unwrap()
}

fn override_of(count: u64, period_s: u64) -> Quota {
    Quota::fixed_window(Rate::new(count, Duration::from_secs(period_s)).unwrap()).unwrap().with_max_debt(0).unwrap()
}

#[test]
fn flood_of_caller_keys_evicts_no_policy_key() {
    let clock = ManualClock::at(START_NS);
    let store = store_of(10_000, WhenFull::EvictLeastUsed, &clock);
    let day: Rate = "1/day".parse().unwrap();
    let rules = [Quota::token_bucket(day).unwrap(), Quota::fixed_window(day).unwrap()];
    let rules = rules.map(|quota| store.limit(&format!("{:?}", quota.kind()), quota).unwrap());
    for rule in &rules {
        assert!(store.check(rule, "blocked", 1).is_allowed());
    }
    let (bucket, window) = (of_caller(&store, quota(1, YEAR_S, 10)), store.caller_limit(":o", override_of(9, YEAR_S)));
    let window = window.unwrap();
    for key in 0..100_000_u64 {
        assert!(store.check(&bucket, &key, 5).is_allowed());
        assert!(store.check(&window, &key, 5).is_allowed());
    }
    for rule in &rules {
        assert!(!store.check(rule, "blocked", 1).is_allowed());
    }
    let stats = store.stats();
    assert_eq!(stats.evictions, 0);
    assert!(stats.caller_evictions > 180_000, "{stats:?}");
}

#[test]
fn callers_use_no_quota_tags() {
    let clock = ManualClock::at(START_NS);
    let store = store_of(1_000, WhenFull::EvictLeastUsed, &clock);
    for count in 1..=10_000 {
        let limit = of_caller(&store, quota(count, 60, 10_000));
        assert_eq!(store.check(&limit, "one", 1).remaining, 10_000 - count);
    }
    assert_eq!((store.stats().quotas, store.stats().quotas_used), (0, 0));
}

/// 102 bytes for each of half as many keys as the store has entries.
#[test]
fn caller_keys_take_the_documented_share_of_memory() {
    const ENTRIES: usize = 100_000;
    let clock = ManualClock::at(START_NS);
    let store = store_of(ENTRIES, WhenFull::EvictLeastUsed, &clock);
    let limit = of_caller(&store, quota(1, YEAR_S, 10));
    for key in 0..3 * ENTRIES as u64 {
        store.check(&limit, &key, 1);
    }
    let stats = store.stats();
    assert!(stats.bytes <= ENTRIES / 2 * 102 * 11 / 10, "{stats:?}");
    assert!(stats.live_keys >= ENTRIES / 2, "{stats:?}");
}

/// Memory is taken as keys arrive, and counts are kept while the table grows.
#[test]
fn caller_table_starts_small_and_keeps_counts_when_growing() {
    let clock = ManualClock::at(START_NS);
    let store = store_of(1_000_000, WhenFull::EvictLeastUsed, &clock);
    let limit = of_caller(&store, quota(1, YEAR_S, 1));
    let mut bytes = Vec::new();
    for keys in [1_000_u64, 100_000, 300_000] {
        for key in 0..keys {
            store.check(&limit, &key, 1);
        }
        assert!((0..keys).all(|key| !store.check(&limit, &key, 1).is_allowed()), "of {keys}");
        bytes.push(store.stats().bytes);
    }
    assert_eq!(store.stats().caller_evictions, 0);
    assert!(bytes[0] < 5 << 20 && bytes[1] < 20 << 20 && bytes[2] < 52 << 20, "{bytes:?}");
}

#[test]
fn least_recently_used_caller_key_is_evicted() {
    let clock = ManualClock::at(START_NS);
    // All keys collide in one part of the table.
    let store = store_of(80, WhenFull::EvictLeastUsed, &clock);
    let (short, long) = (of_caller(&store, quota(1, 3_600, 1)), of_caller(&store, quota(1, YEAR_S, 1)));
    let keys: Vec<String> = (0..64).map(|key| format!("k{key}")).collect();
    for (at, key) in keys.iter().enumerate() {
        clock.advance(Duration::from_nanos(1));
        // A period of a year is no advantage over an hour.
        assert!(store.check(if at % 2 == 0 { &long } else { &short }, key.as_str(), 1).is_allowed());
    }
    // A refusal counts as a use, too.
    clock.advance(Duration::from_nanos(1));
    assert!(!store.check(&long, "k0", 1).is_allowed());
    for new in 0..63_u64 {
        clock.advance(Duration::from_nanos(1));
        assert!(store.check(&short, &new, 1).is_allowed());
    }
    assert_eq!(store.peek(&long, "k0").remaining, 0, "it was used after all the others");
    let forgotten = keys.iter().filter(|key| store.peek(&long, key.as_str()).remaining == 1).count();
    assert_eq!(forgotten, 63);
}

/// A flood with long periods costs later keys nothing.
#[test]
fn keys_after_a_flood_of_long_periods_are_limited() {
    let clock = ManualClock::at(START_NS);
    let store = store_of(10_000, WhenFull::EvictLeastUsed, &clock);
    let (year, brief) = (of_caller(&store, quota(1, YEAR_S, 10)), of_caller(&store, quota(1, 60, 1)));
    for key in 0..50_000_u64 {
        store.check(&year, &key, 10);
    }
    let keys: Vec<String> = (0..2_000).map(|key| format!("later-{key}")).collect();
    for key in &keys {
        clock.advance(Duration::from_nanos(1));
        assert!(store.check(&brief, key.as_str(), 1).is_allowed());
    }
    let freed = keys.iter().filter(|key| store.check(&brief, key.as_str(), 1).is_allowed()).count();
    assert_eq!(freed, 0);
}

#[test]
fn full_caller_table_refuses_new_keys_and_leaves_the_policy_space() {
    let clock = ManualClock::at(START_NS);
    let store = store_of(1_000, WhenFull::RefuseNew, &clock);
    let (rule, limit) = (store.limit("rule", quota(1, 60, 1)).unwrap(), of_caller(&store, quota(1, YEAR_S, 1)));
    let refused =
        (0..5_000_u64).filter(|key| store.check(&limit, key, 1).verdict == ChargeVerdict::Unavailable).count();
    assert!(refused > 4_000, "{refused}");
    assert!(store.check(&rule, "new", 1).is_allowed());
    assert_eq!(store.stats().caller_evictions, 0);
}

/// The same quotas in the same order, under the policy and from a caller.
#[test]
fn caller_limit_decides_like_a_policy_limit() {
    let clock = ManualClock::at(START_NS);
    let store = store_of(1_000, WhenFull::EvictLeastUsed, &clock);
    let quotas = [quota(1, 60, 10), quota(2, 60, 20), quota(7, 77, 30), quota(1_000, 1, 20), quota(3, 7, 1)];
    let limits = quotas.map(|quota| (store.limit(SCOPE, quota).unwrap(), of_caller(&store, quota)));
    let windows = [override_of(5, 60), override_of(50, 60)];
    let windows = windows.map(|quota| (store.limit(":o", quota).unwrap(), store.caller_limit(":o", quota).unwrap()));
    let mut random = 1_u64;
    for step in 0..50_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (bits, key) = (random >> 33, (random >> 20) % 5);
        let (limits, scale) = if bits % 4 == 0 { (&windows[..], 8) } else { (&limits[..], 4) };
        let (rule, brought) = &limits[(bits / 4) as usize % limits.len()];
        let cost = bits / 32 % scale;
        assert_eq!(store.check(rule, &key, cost), store.check(brought, &key, cost), "step {step}");
        if bits % 16 == 0 {
            clock.advance(Duration::from_secs(bits % 30));
        }
    }
}

#[test]
fn threads_with_different_quotas_for_one_key_share_one_budget() {
    let clock = ManualClock::at(START_NS);
    let store = store_of(1_000, WhenFull::EvictLeastUsed, &clock);
    let passed: usize = std::thread::scope(|scope| {
        let store = &store;
        let brings = |thread: u64| {
            move || {
                let limit = |step: u64| of_caller(store, quota(1, 3_600 + thread * 100 + step, 60));
                (0..100).filter(|step| store.check(&limit(*step), "one", 1).is_allowed()).count()
            }
        };
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(brings(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(passed, 60);
}

#[test]
fn quotas_that_do_not_fit_an_entry_are_rejected_for_callers() {
    let store = store_of(100, WhenFull::EvictLeastUsed, &ManualClock::at(START_NS));
    let rate: Rate = "5/min".parse().unwrap();
    let others = [
        Quota::token_bucket(rate).unwrap(),
        Quota::leaky_bucket(rate).unwrap(),
        Quota::sliding_window_log(rate).unwrap(),
        Quota::sliding_window_counter(rate).unwrap(),
        Quota::concurrency(5, None).unwrap(),
        quota(1, 60, 5).with_reservations(Duration::from_secs(60)).unwrap(),
    ];
    for quota in others {
        assert_eq!(store.caller_limit(SCOPE, quota).unwrap_err(), LimitError::NotForCallers, "{quota:?}");
    }
}

fn restarted(store: &Store, clock: &ManualClock) -> Store {
    let mut written = Vec::new();
    store.write_snapshot(START_NS, &mut written).unwrap();
    let options = MemoryOptions { capacity: Capacity::Entries(1_000), when_full: WhenFull::EvictLeastUsed };
    MemoryStore::restore(options, clock.clone(), START_NS, &mut &*written).unwrap().0
}

#[test]
fn snapshot_keeps_caller_keys_separate() {
    let clock = ManualClock::at(START_NS);
    let store = store_of(1_000, WhenFull::EvictLeastUsed, &clock);
    let (bucket, window) = (quota(7, 77, 30), override_of(9, 60));
    store.check(&of_caller(&store, bucket), "a", 4);
    store.check(&store.caller_limit(":o", window).unwrap(), "a", 4);
    store.check(&store.limit(SCOPE, bucket).unwrap(), "a", 1);
    for generation in 0..2 {
        let store = restarted(&store, &clock);
        assert_eq!(store.peek(&of_caller(&store, bucket), "a").remaining, 26, "{generation}");
        assert_eq!(store.peek(&store.caller_limit(":o", window).unwrap(), "a").remaining, 5, "{generation}");
        assert_eq!(store.peek(&store.limit(SCOPE, bucket).unwrap(), "a").remaining, 29, "{generation}");
        let again = store.check(&of_caller(&store, quota(2, 60, 20)), "a", 1);
        assert_eq!(again.remaining, 15, "another quota continues from there");
    }
}

/// A writer that collects the snapshot and adds keys meanwhile.
struct AddKeysWhileWriting<'a> {
    written: Vec<u8>,
    store: &'a Store,
    limit: &'a Limit,
    next_key: u64,
}

impl std::io::Write for AddKeysWhileWriting<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // No more than the table holds.
        let keys = self.next_key..(self.next_key + 10_000).min(250_000);
        for key in keys.clone() {
            self.store.check(self.limit, &key, 1);
        }
        self.next_key = keys.end;
        self.written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn snapshot_of_a_growing_table_has_every_earlier_key() {
    const KEYS: u64 = 30_000;
    let clock = ManualClock::at(START_NS);
    let store = store_of(1_000_000, WhenFull::EvictLeastUsed, &clock);
    let limit = of_caller(&store, quota(1, YEAR_S, 1));
    assert!((0..KEYS).all(|key| store.check(&limit, &key, 1).is_allowed()));
    let mut to = AddKeysWhileWriting { written: Vec::new(), store: &store, limit: &limit, next_key: KEYS };
    store.write_snapshot(START_NS, &mut to).unwrap();
    assert!(to.next_key > 5 * KEYS, "{} keys came meanwhile", to.next_key - KEYS);
    assert_eq!(store.stats().caller_evictions, 0);
    let options = MemoryOptions { capacity: Capacity::Entries(1_000_000), when_full: WhenFull::EvictLeastUsed };
    let restored = MemoryStore::restore(options, clock.clone(), START_NS, &mut &*to.written).unwrap().0;
    let limit = of_caller(&restored, quota(1, YEAR_S, 1));
    let freed = (0..KEYS).filter(|key| restored.check(&limit, key, 1).is_allowed()).count();
    assert_eq!((freed, restored.stats().caller_evictions), (0, 0));
}

/// The previous version counted callers' keys among those of the rules.
#[test]
fn caller_keys_continue_from_a_snapshot_that_has_them_among_the_others() {
    let clock = ManualClock::at(START_NS);
    let before = store_of(1_000, WhenFull::EvictLeastUsed, &clock);
    let (bucket, window) = (quota(1, 60, 30), override_of(9, 60));
    before.check(&before.limit(SCOPE, bucket).unwrap(), "a", 4);
    before.check(&before.limit(SCOPE, bucket).unwrap(), "b", 4);
    before.check(&before.limit(":o", window).unwrap(), "a", 4);
    let store = restarted(&before, &clock);
    let (limit, limit_of_window) = (of_caller(&store, bucket), store.caller_limit(":o", window).unwrap());
    assert_eq!(store.peek(&limit, "a").remaining, 26);
    assert_eq!(store.check(&limit, "a", 1).remaining, 25);
    assert_eq!(store.check(&limit, "a", 1).remaining, 24);
    assert_eq!(store.check(&limit_of_window, "a", 1).remaining, 4);
    // A key that was not used meanwhile survives another restart.
    let store = restarted(&store, &clock);
    let limit = of_caller(&store, bucket);
    assert_eq!(store.peek(&limit, "a").remaining, 24);
    assert_eq!(store.check(&limit, "b", 1).remaining, 25);
}

/// A measurement, not a test: prints the time of a check in nanoseconds. For a release build.
#[test]
#[ignore = "a measurement"]
fn print_check_time_of_caller_and_rule_keys() {
    const CHECKS: u64 = 3_000_000;
    let store = MemoryStore::with(MemoryOptions::default(), tollgate_store::RealClock::new()).unwrap();
    let (rate, long) = (quota(1_000_000, 1, 1_000_000), quota(1, YEAR_S, 10));
    let timed = |what: &str, limit: &Limit, keys: u64| {
        let begun = std::time::Instant::now();
        for check in 0..CHECKS {
            let _ = std::hint::black_box(store.check(limit, &(check.wrapping_mul(0x9e37_79b9) % keys), 1));
        }
        println!("{what}: {:.0}", begun.elapsed().as_nanos() as f64 / CHECKS as f64);
    };
    let (rule, brought) = (store.limit("rule", rate).unwrap(), store.caller_limit(SCOPE, rate).unwrap());
    for keys in [1, 1_000, 100_000] {
        timed(&format!("{keys} keys of a rule"), &rule, keys);
        timed(&format!("{keys} keys of a caller"), &brought, keys);
    }
    timed("keys of a caller that are all new", &store.caller_limit(SCOPE, long).unwrap(), u64::MAX);
    println!("{:?}", store.stats());
}
