//! A restored store decides as if it had never stopped.

#![allow(clippy::unwrap_used)]

mod quotas;

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use quotas::{any_cost, any_tight_bucket, any_tight_queue, any_tight_reserving_bucket, any_tight_window, cases};
use tollgate_store::{
    AlgorithmKind, Capacity, Clock, Limit, ManualClock, MemoryOptions, MemoryStore, Quota, RestoreSummary, WhenFull,
};

const ROOMY: MemoryOptions = MemoryOptions { capacity: Capacity::Entries(1024), when_full: WhenFull::RefuseNew };
const START_NS: u64 = 1_790_000_000_000_000_000;

type Store = MemoryStore;

fn written(store: &Store, wall_ns: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let written = store.write_snapshot(wall_ns, &mut bytes).unwrap();
    assert_eq!(written.bytes, bytes.len() as u64);
    bytes
}

fn restored(bytes: &[u8], options: MemoryOptions, clock: &ManualClock, wall_ns: u64) -> (Store, RestoreSummary) {
    MemoryStore::restore(options, clock.clone(), wall_ns, &mut &bytes[..]).unwrap()
}

/// Makes the limits of a policy, starting at `first`.
fn limits(store: &Store, quotas: &[(usize, Quota)], first: usize) -> Vec<Limit> {
    let mut limits: Vec<Option<Limit>> = vec![None; quotas.len()];
    for step in 0..quotas.len() {
        let at = (first + step) % quotas.len();
        let (scope, quota) = quotas[at];
        limits[at] = Some(store.limit(&format!("scope-{scope}"), quota).unwrap());
    }
    limits.into_iter().map(Option::unwrap).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Forward(u64),
    Check(usize, u64, u64),
    Reserve(usize, u64, u64, u64),
    Penalise(usize, u64, u64),
    /// The time without a process, and the first limit that is made then.
    Restart(u64, usize),
}

fn any_span_ns() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![0_u64..3, 1_u64..1_000, 1_u64..3_000_000, 1_u64..30_000_000]
}

fn any_step() -> impl Strategy<Value = Step> {
    let (limit, key) = (0_usize..8, 0_u64..3);
    prop_oneof![
        4 => any_span_ns().prop_map(Step::Forward),
        10 => (limit.clone(), key.clone(), any_cost()).prop_map(|(limit, key, cost)| Step::Check(limit, key, cost)),
        2 => (limit.clone(), key.clone(), any_cost(), any_span_ns())
            .prop_map(|(limit, key, cost, patience)| Step::Reserve(limit, key, cost, patience)),
        1 => (limit, key, any_cost()).prop_map(|(limit, key, cost)| Step::Penalise(limit, key, cost)),
        3 => (any_span_ns(), 0_usize..8).prop_map(|(down, order)| Step::Restart(down, order)),
    ]
}

/// Permits without a lease do not survive, so these have leases.
fn any_leased() -> impl Strategy<Value = Quota> + Clone {
    (1_u64..=8, 1_u64..5_000_000)
        .prop_map(|(permits, ns)| Quota::concurrency(permits, Some(Duration::from_nanos(ns))).unwrap())
}

fn any_kept_quota() -> impl Strategy<Value = Quota> + Clone {
    prop_oneof![
        3 => any_tight_bucket(),
        1 => any_tight_reserving_bucket(),
        1 => any_tight_queue(),
        4 => any_tight_window(),
        1 => any_leased(),
    ]
}

/// All quotas whose times are spans, and not calendar times.
fn any_quota_without_calendar() -> impl Strategy<Value = Quota> + Clone {
    any_kept_quota().prop_filter("follows the calendar", |quota| !follows_calendar(quota))
}

fn follows_calendar(quota: &Quota) -> bool {
    matches!(quota.kind(), AlgorithmKind::FixedWindow | AlgorithmKind::SlidingWindowCounter)
}

/// A log may be dropped once its own window is over, although a longer one would still contain it, if the slot is
/// needed or the store restarts. So the logs of one scope have the same window here.
fn with_one_log_window(quotas: &[(usize, Quota)]) -> Vec<(usize, Quota)> {
    let is_log = |quota: &Quota| quota.kind() == AlgorithmKind::SlidingWindowLog;
    let first = |scope| quotas.iter().find(|(other, quota)| *other == scope && is_log(quota));
    let agrees = |(scope, quota): &(usize, Quota)| {
        !is_log(quota) || first(*scope).is_some_and(|(_, first)| first.period_ns() == quota.period_ns())
    };
    quotas.iter().copied().filter(agrees).collect()
}

fn any_quotas(quota: impl Strategy<Value = Quota> + Clone) -> impl Strategy<Value = Vec<(usize, Quota)>> {
    vec((0_usize..3, quota), 1..8).prop_map(|quotas| with_one_log_window(&quotas))
}

/// A store that never stops, and one that restarts.
struct Pair<'q> {
    quotas: &'q [(usize, Quota)],
    steady: (Store, Vec<Limit>, ManualClock),
    stopped: (Store, Vec<Limit>, ManualClock),
    wall_ns: u64,
}

impl Pair<'_> {
    fn new(quotas: &[(usize, Quota)]) -> Pair<'_> {
        let made = || {
            let clock = ManualClock::at(START_NS);
            let store = MemoryStore::restorable(ROOMY, clock.clone()).unwrap();
            let limits = limits(&store, quotas, 0);
            (store, limits, clock)
        };
        Pair { quotas, steady: made(), stopped: made(), wall_ns: START_NS }
    }

    fn step(&mut self, step: &Step) {
        let count = self.quotas.len();
        match *step {
            Step::Forward(ns) => self.forward(ns),
            Step::Check(limit, key, cost) => self.both(|store, limits| {
                let decision = store.check(&limits[limit % count], &key, cost);
                (decision, store.peek(&limits[limit % count], &key))
            }),
            Step::Reserve(limit, key, cost, patience) => {
                self.both(|store, limits| store.reserve(&limits[limit % count], &key, cost, patience).0);
            }
            Step::Penalise(limit, key, cost) => {
                self.both(|store, limits| store.penalise(&limits[limit % count], &key, cost));
            }
            Step::Restart(down_ns, order) => {
                let now_ns = self.stopped.2.now_ns();
                self.restart(down_ns, self.wall_ns + down_ns, now_ns + down_ns, order);
            }
        }
    }

    fn forward(&mut self, ns: u64) {
        self.steady.2.advance(Duration::from_nanos(ns));
        self.stopped.2.advance(Duration::from_nanos(ns));
        self.wall_ns += ns;
    }

    /// Restarts one store while `passes_ns` passes for the other. The next clock of the restarted store begins at
    /// `now_ns`.
    fn restart(&mut self, passes_ns: u64, wall_ns: u64, now_ns: u64, order: usize) {
        let bytes = written(&self.stopped.0, self.wall_ns);
        self.steady.2.advance(Duration::from_nanos(passes_ns));
        self.wall_ns = wall_ns;
        let clock = ManualClock::at(now_ns);
        let (store, summary) = restored(&bytes, ROOMY, &clock, wall_ns);
        assert_eq!(summary.lost, 0);
        let limits = limits(&store, self.quotas, order);
        self.stopped = (store, limits, clock);
    }

    fn both<R: PartialEq + std::fmt::Debug>(&self, ask: impl Fn(&Store, &[Limit]) -> R) {
        let steady = ask(&self.steady.0, &self.steady.1);
        let stopped = ask(&self.stopped.0, &self.stopped.1);
        assert_eq!(stopped, steady, "the second is the store that never stopped");
    }

    fn peek_everything(&self) {
        for key in 0..3_u64 {
            self.both(|store, limits| limits.iter().map(|limit| store.peek(limit, &key)).collect::<Vec<_>>());
        }
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn restored_store_decides_as_if_it_had_never_stopped(
        quotas in any_quotas(any_kept_quota()),
        steps in vec(any_step(), 1..60),
    ) {
        let mut pair = Pair::new(&quotas);
        for step in &steps {
            pair.step(step);
            if matches!(step, Step::Restart(..)) {
                pair.peek_everything();
            }
        }
    }

    /// The time of day may be set while a process runs or between processes, and the clock of the next process starts
    /// there.
    #[test]
    fn changes_of_the_time_of_day_refill_nothing(
        quotas in any_quotas(any_quota_without_calendar()),
        steps in vec(any_step(), 1..40),
        restarts in vec((0_u64..u64::MAX >> 4, 0_u64..30_000_000, any::<bool>()), 1..3),
    ) {
        let mut pair = Pair::new(&quotas);
        for (wall_ns, down_ns, goes_back) in restarts {
            steps.iter().for_each(|step| pair.step(step));
            // The time of day when the store was written, and afterwards.
            pair.wall_ns = wall_ns;
            let after_ns = if goes_back { wall_ns.saturating_sub(down_ns) } else { wall_ns + down_ns };
            let passes_ns = after_ns.saturating_sub(wall_ns);
            pair.restart(passes_ns, after_ns, after_ns, 0);
            pair.peek_everything();
        }
    }

    /// Windows end at their calendar times: a time of day that goes back refunds nothing.
    #[test]
    fn time_of_day_that_goes_back_refills_no_window(
        quota in any_tight_window().prop_filter("follows the calendar", follows_calendar),
        costs in vec((0_u64..4, 0_u64..1_000_000), 1..12),
        back_ns in 0_u64..10_000_000,
    ) {
        let clock = ManualClock::at(START_NS);
        let store = MemoryStore::restorable(ROOMY, clock.clone()).unwrap();
        let limit = store.limit("scope", quota).unwrap();
        for (cost, ns) in costs {
            store.check(&limit, "key", cost);
            clock.advance(Duration::from_nanos(ns));
        }
        let before = store.peek(&limit, "key");
        let wall_ns = clock.now_ns();
        let bytes = written(&store, wall_ns);
        let clock = ManualClock::at(wall_ns - back_ns);
        let (store, _) = restored(&bytes, ROOMY, &clock, wall_ns - back_ns);
        let limit = store.limit("scope", quota).unwrap();
        prop_assert!(store.peek(&limit, "key").remaining <= before.remaining);
    }
}

#[test]
fn restored_permits_expire_with_their_lease_or_are_released() {
    let clock = ManualClock::at(START_NS);
    let store = MemoryStore::restorable(ROOMY, clock.clone()).unwrap();
    let leased = Quota::concurrency(2, Some(Duration::from_secs(60))).unwrap();
    let unleased = Quota::concurrency(2, None).unwrap();
    for (scope, quota) in [("leased", leased), ("unleased", unleased)] {
        let limit = store.limit(scope, quota).unwrap();
        assert!(store.check_with_receipt(&limit, "key", 2).0.is_allowed());
    }
    let bytes = written(&store, START_NS);
    clock.advance(Duration::from_secs(20));
    let (store, _) = restored(&bytes, ROOMY, &clock, clock.now_ns());
    let leased = store.limit("leased", leased).unwrap();
    let unleased = store.limit("unleased", unleased).unwrap();
    assert_eq!((store.peek(&leased, "key").remaining, store.peek(&unleased, "key").remaining), (0, 2));
    clock.advance(Duration::from_secs(40));
    assert_eq!(store.peek(&leased, "key").remaining, 2);
}

#[test]
fn expired_and_lost_keys_are_counted() {
    let clock = ManualClock::at(START_NS);
    let roomy = MemoryOptions { capacity: Capacity::Entries(10_000), when_full: WhenFull::RefuseNew };
    let store = MemoryStore::restorable(roomy, clock.clone()).unwrap();
    let short = store.limit("short", Quota::token_bucket("1/s".parse().unwrap()).unwrap()).unwrap();
    let long = Quota::token_bucket("1/day".parse().unwrap()).unwrap();
    let daily = store.limit("daily", long).unwrap();
    for key in 0..1_000_u64 {
        assert!(store.check(&short, &key, 1).is_allowed() && store.check(&daily, &key, 1).is_allowed());
    }
    let bytes = written(&store, START_NS);
    clock.advance(Duration::from_secs(60));
    let (_, all) = restored(&bytes, roomy, &clock, clock.now_ns());
    assert_eq!((all.keys, all.expired, all.lost, all.quotas), (1_000, 1_000, 0, 2));
    assert_eq!(all.written_at_ns, START_NS);
    // A smaller store restores what it can, and counts the rest as lost.
    let small = MemoryOptions { capacity: Capacity::Entries(100), when_full: WhenFull::RefuseNew };
    let (store, some) = restored(&bytes, small, &clock, clock.now_ns());
    assert_eq!((some.keys + some.lost, some.expired), (1_000, 1_000));
    assert!(some.keys >= 100 && some.lost > 0, "{some:?}");
    let daily = store.limit("daily", long).unwrap();
    let refused = (0..1_000_u64).filter(|key| store.peek(&daily, key).remaining == 0).count();
    assert_eq!(refused as u64, some.keys);
}

#[test]
fn only_a_restorable_store_writes_snapshots() {
    let store = MemoryStore::with(ROOMY, ManualClock::at(START_NS)).unwrap();
    assert_eq!(store.write_snapshot(0, &mut Vec::new()).unwrap_err().kind(), std::io::ErrorKind::Unsupported);
}
