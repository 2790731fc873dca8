#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tollgate::{ChargeVerdict, Decision, ManualClock, MemoryOptions, MemoryStore, Quota, Rate};

use super::AskedQuota;
use super::Store;
use super::{Throttle, ThrottleBatch};
use crate::service_clock::ServiceClock;

const S_NS: u64 = 1_000_000_000;

fn quota(count: u64, period_s: u64, burst: u64) -> Quota {
    let rate = Rate::new(count, Duration::from_secs(period_s)).unwrap();
    Quota::token_bucket(rate.with_burst(burst).unwrap()).unwrap().with_max_debt(0).unwrap()
}

struct Tried {
    throttle: Throttle,
    store: Store,
    clock: ManualClock,
}

impl Tried {
    /// With so many quotas prepared at most.
    fn preparing(most_quotas: usize, refuses_when_full: bool) -> Tried {
        let clock = ManualClock::at(1_700_000_000 * S_NS);
        let store = MemoryStore::with(MemoryOptions::default(), ServiceClock(Arc::new(clock.clone()))).unwrap();
        Tried { throttle: Throttle::with_most_quotas(most_quotas, refuses_when_full), store, clock }
    }

    /// With a quota of 10 prepared, which refills by 1 a minute, and an overflow for all others.
    fn overflowing() -> Tried {
        let tried = Tried::preparing(1, false);
        tried.check("somebody", &early(), 1);
        tried.check("somebody", &late(), 1);
        tried
    }

    fn check(&self, key: &str, quota: &Quota, cost: u64) -> Decision {
        self.throttle.check(&self.store, key.as_bytes(), &mut AskedQuota::new(*quota), cost)
    }
}

fn early() -> Quota {
    quota(1, 60, 10)
}

fn late() -> Quota {
    quota(2, 60, 20)
}

/// A key goes on where it was, whether its next quota is prepared or not.
#[test]
fn what_a_key_has_used_goes_with_it() {
    let tried = Tried::overflowing();
    let (early, late, later) = (early(), late(), quota(7, 77, 30));
    assert_eq!(tried.check("k", &early, 4).remaining, 6);
    assert_eq!(tried.check("k", &late, 0).remaining, 16);
    assert_eq!(tried.check("k", &early, 0).remaining, 6);
    assert_eq!(tried.check("k", &late, 1).remaining, 15);
    assert_eq!(tried.check("k", &early, 1).remaining, 4);
    assert_eq!(tried.check("k", &later, 4).remaining, 20);
    assert_eq!(tried.check("k", &early, 1).retry_after(), Some(60 * S_NS));
    // A refusal and a look under another quota change nothing.
    for _ in 0..3 {
        assert!(!tried.check("k", &early, 1).is_allowed());
        assert_eq!(tried.check("k", &later, 0).reset_after, 110 * S_NS);
    }
    // Full again, it may live in the store as before.
    tried.clock.advance(110 * S_NS);
    assert_eq!(tried.check("k", &early, 10).remaining, 0);
    assert_eq!(tried.check("k", &early, 1).retry_after(), Some(60 * S_NS));
    assert_eq!(tried.check("k", &later, 0).remaining, 20);
}

/// What has moved is not counted twice, nor left behind.
#[test]
fn a_key_that_moved_has_left_the_store() {
    let tried = Tried::overflowing();
    let quick = quota(1_000, 1, 20);
    assert_eq!(tried.check("k", &early(), 10).remaining, 0);
    assert_eq!(tried.check("k", &quick, 1).remaining, 9);
    tried.clock.advance(11_000_000);
    assert!(tried.check("k", &early(), 10).is_allowed());
}

/// Also where the overflow begins in the middle of it, and what it goes by is an old list.
#[test]
fn commands_that_came_together_are_decided_as_one_by_one() {
    let (together, alone) = (Tried::preparing(2, false), Tried::preparing(2, false));
    let mut batch = ThrottleBatch::new(&together.throttle, &together.store);
    let quotas = [early(), late(), early(), quota(7, 77, 30), late(), early()];
    let mut asked: Vec<AskedQuota> = quotas.iter().map(|quota| AskedQuota::new(*quota)).collect();
    for round in 0..3 {
        for (asked, quota) in asked.iter_mut().zip(&quotas) {
            assert_eq!(batch.check(b"k", asked, 1), alone.check("k", quota, 1), "{round}");
        }
    }
    // Somebody else may begin the overflow meanwhile, and who waits for old lists need not wait for a batch let go.
    let tried = Tried::preparing(1, false);
    let mut batch = ThrottleBatch::new(&tried.throttle, &tried.store);
    batch.check(b"k", &mut AskedQuota::new(early()), 1);
    batch.let_go();
    assert_eq!(tried.check("k", &late(), 1).remaining, 18);
}

#[test]
fn a_look_writes_nothing() {
    let tried = Tried::overflowing();
    tried.check("k", &early(), 4);
    for _ in 0..3 {
        assert_eq!(tried.check("k", &late(), 0).remaining, 16);
        assert_eq!(tried.check("new", &late(), 0).remaining, 20);
    }
    assert_eq!(tried.check("new", &late(), 21).verdict, ChargeVerdict::Impossible);
    assert_eq!(tried.check("new", &late(), 20).remaining, 0);
}

#[test]
fn a_clock_that_went_back_locks_nobody_out_for_longer_than_the_limit_takes() {
    let tried = Tried::overflowing();
    assert!(tried.check("k", &late(), 20).is_allowed());
    tried.clock.set(S_NS);
    assert_eq!(tried.check("k", &late(), 20).retry_after(), Some(600 * S_NS));
    tried.clock.advance(600 * S_NS);
    assert!(tried.check("k", &late(), 20).is_allowed());
}

#[test]
fn keys_beyond_the_room_make_room_and_are_counted() {
    let tried = Tried::overflowing();
    let touch = |keys: std::ops::Range<u32>| {
        keys.for_each(|key| {
            assert!(tried.check(&key.to_string(), &late(), 1).is_allowed());
        });
    };
    touch(0..100_000);
    let evictions = tried.throttle.evictions();
    assert!((100_000 - 65_536..100_000).contains(&evictions), "{evictions}");
    // Those that are full again make room for nothing.
    tried.clock.advance(30 * S_NS);
    touch(200_000..210_000);
    assert_eq!(tried.throttle.evictions(), evictions);
}

/// Whoever is blocked longest stays blocked.
#[test]
fn the_fullest_key_makes_room() {
    let tried = Tried::overflowing();
    assert!(tried.check("blocked", &late(), 20).is_allowed());
    for key in 0..200_000 {
        tried.check(&key.to_string(), &late(), 1);
    }
    assert!(!tried.check("blocked", &late(), 1).is_allowed());
}

#[test]
fn where_new_keys_are_refused_old_ones_stay() {
    let tried = Tried::preparing(0, true);
    let keys: Vec<String> = (0..100_000).map(|key| key.to_string()).collect();
    let verdicts: Vec<ChargeVerdict> = keys.iter().map(|key| tried.check(key, &late(), 1).verdict).collect();
    let refused = verdicts.iter().filter(|verdict| **verdict == ChargeVerdict::NoRoom).count();
    assert!((100_000 - 65_536..100_000).contains(&refused), "{refused}");
    for (key, verdict) in keys.iter().zip(verdicts).filter(|(_, verdict)| *verdict != ChargeVerdict::NoRoom) {
        assert_eq!(tried.check(key, &late(), 0).remaining, 19, "{verdict:?}");
    }
    assert_eq!(tried.throttle.evictions(), 0);
}

/// Threads share one key, and each brings new quotas until there are too many:
/// no more passes than one limit, whoever moves the key meanwhile.
#[test]
fn no_charge_is_lost_when_the_overflow_begins() {
    const THREADS: u64 = 4;
    const EACH: u64 = 40;
    for most_quotas in 0..40 {
        let tried = Tried::preparing(most_quotas, false);
        let passed: u64 = thread::scope(|scope| {
            let brings = |thread: u64| {
                let tried = &tried;
                move || {
                    // All of them have the same limit and refill nothing while the clock stands still.
                    let quota = |step: u64| quota(1, 3600 + thread * EACH + step, 60);
                    (0..EACH).filter(|step| tried.check("k", &quota(*step), 1).is_allowed()).count() as u64
                }
            };
            let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(brings(thread))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(passed, 60, "{most_quotas} quotas prepared");
    }
}
