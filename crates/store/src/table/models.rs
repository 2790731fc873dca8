//! Every interleaving of a few threads on a table of two slots.
//!
//! Under loom a line has one slot and a key two lines, so that two keys meet at
//! once and the whole protocol (hit, miss, claim, reuse, eviction) is walked in
//! a few steps. `scripts/loom` runs these.

mod tags;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use tollgate_core::{Bucket, Quota, Tick};

use super::{Place, Table};
use crate::clock::Clock;
use crate::limit::BucketRule;
use crate::memory::operation::{ChargeNoted, Check, GiveBack};
use crate::memory::options::WhenFull;
use crate::table::full::Full;
use crate::table::quotas::{Quotas, TagUse};

const MS: u64 = 1_000_000;
const START: u64 = 1_000 * MS;
/// Both keys have line 0 as their home; they differ in the fingerprint.
const A: u64 = 1;
const B: u64 = 2;

/// A clock that loom sees, so that it also interleaves its readings.
#[derive(Clone)]
struct SharedClock(Arc<AtomicU64>);

impl Clock for SharedClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

struct World {
    table: Table,
    clock: SharedClock,
    rule: BucketRule,
    other_rule: BucketRule,
    _tag_uses: [TagUse; 2],
}

impl World {
    /// A table of two slots, and buckets of one token that refills in 50 ms.
    fn new(when_full: WhenFull) -> Arc<World> {
        let quotas = std::sync::Arc::new(Quotas::default());
        let (rule, tag_use) = prepared(&quotas, "20/s burst 1", |_| ());
        let (other_rule, other_use) = prepared(&quotas, "10/s burst 1", |_| ());
        let table = Table::new(1, quotas, when_full);
        let clock = SharedClock(Arc::new(AtomicU64::new(START)));
        Arc::new(World { table, clock, rule, other_rule, _tag_uses: [tag_use, other_use] })
    }

    fn set_clock(&self, ms_after_start: u64) {
        self.clock.0.store(START + ms_after_start * MS, Ordering::SeqCst);
    }

    /// 1 if it was admitted.
    fn check(&self, hash: u64) -> u64 {
        self.check_under(&self.rule, hash)
    }

    /// As a store does it: the common case first, then all the others.
    fn check_under(&self, rule: &BucketRule, hash: u64) -> u64 {
        let place = Place { hash, rule };
        let decision = match self.table.check_common(place, self.clock.now_ns(), 1) {
            Some(checked) => Ok(checked.decision),
            None => self.table.apply(place, &self.clock, &Check { cost: 1 }),
        };
        match decision {
            Ok(decision) => u64::from(decision.is_allowed()),
            Err(Full) => 0,
        }
    }
}

/// A bucket quota with its tag.
fn prepared(quotas: &Quotas, rate: &str, leave_unused: impl FnOnce(&mut Vec<bool>)) -> (BucketRule, TagUse) {
    let quota = Quota::token_bucket(rate.parse().unwrap()).unwrap();
    let bucket = Bucket::new(&quota, Tick::Nanosecond).unwrap();
    let (tag, tag_use) = quotas.tag(bucket, &quota, leave_unused).unwrap();
    (BucketRule { bucket, tag }, tag_use)
}

fn both(
    world: &Arc<World>,
    one: impl FnOnce(&World) -> u64 + Send + 'static,
    two: impl FnOnce(&World) -> u64,
) -> (u64, u64) {
    let other = Arc::clone(world);
    let first = thread::spawn(move || one(&other));
    let second = two(world);
    (first.join().unwrap(), second)
}

#[test]
fn two_threads_that_miss_one_key_admit_one_of_them() {
    loom::model(|| {
        let world = World::new(WhenFull::EvictFullest);
        let (one, two) = both(&world, |w| w.check(A), |w| w.check(A));
        assert_eq!(one + two, 1);
    });
}

#[test]
fn two_threads_that_hit_one_key_admit_one_of_them() {
    loom::model(|| {
        let world = World::new(WhenFull::EvictFullest);
        assert_eq!(world.check(A), 1);
        world.set_clock(50);
        let (one, two) = both(&world, |w| w.check(A), |w| w.check(A));
        assert_eq!(one + two, 1);
    });
}

#[test]
fn a_slot_that_goes_to_another_key_takes_no_charge_meant_for_the_first() {
    loom::model(|| {
        let world = World::new(WhenFull::RefuseNew);
        assert_eq!(world.check(A), 1);
        world.set_clock(50);
        // A is full again, so that B may take its slot while A is charged there.
        let (a, b) = both(&world, |w| w.check(A), |w| w.check(B));
        assert_eq!((a, b), (1, 1), "there is room for both");
        assert_eq!(world.check(A), 0, "A has spent its token");
        assert_eq!(world.check(B), 0, "B has spent its token");
    });
}

#[test]
fn an_old_time_does_not_make_a_forgotten_key_full_earlier() {
    loom::model(|| {
        let world = World::new(WhenFull::RefuseNew);
        assert_eq!(world.check(A), 1);
        let (a, _) = both(
            &world,
            |w| w.check(A),
            |w| {
                w.set_clock(51);
                w.check(B)
            },
        );
        // If A was admitted, then at 51 ms, and it is empty until 101 ms.
        world.set_clock(100);
        assert!(a + world.check(A) <= 1);
    });
}

#[test]
fn a_key_that_expires_and_returns_has_one_entry() {
    loom::model(|| {
        let world = World::new(WhenFull::RefuseNew);
        assert_eq!(world.check(A), 1);
        assert_eq!(world.check(B), 1);
        world.set_clock(50);
        let (one, two) = both(&world, |w| w.check(A), |w| w.check(A));
        assert_eq!(one + two, 1);
        assert_eq!(world.check(A), 0);
    });
}

#[test]
fn a_refund_beside_a_check_gives_back_one_token_and_no_more() {
    loom::model(|| {
        let world = World::new(WhenFull::EvictFullest);
        let place = Place { hash: A, rule: &world.rule };
        let (decision, charged) = world.table.apply(place, &world.clock, &ChargeNoted { cost: 1 }).unwrap();
        assert!(decision.is_allowed());
        let (check, _) = both(
            &world,
            |w| w.check(A),
            |w| {
                let place = Place { hash: A, rule: &w.rule };
                w.table.apply(place, &w.clock, &GiveBack { charged: &charged }).unwrap();
                0
            },
        );
        // One token came back: whoever comes first has it.
        assert_eq!(check + world.check(A), 1);
    });
}

#[test]
fn a_quota_that_changes_under_a_charge_refills_nothing() {
    loom::model(|| {
        let world = World::new(WhenFull::EvictFullest);
        let (one, two) = both(&world, |w| w.check(A), |w| w.check_under(&w.other_rule, A));
        assert_eq!(one + two, 1);
        assert_eq!(world.check(A), 0);
        assert_eq!(world.check_under(&world.other_rule, A), 0);
    });
}

#[test]
fn threads_that_evict_from_one_line_lose_no_entry_of_their_own() {
    loom::model(|| {
        let world = World::new(WhenFull::EvictFullest);
        const C: u64 = 3;
        assert_eq!(world.check(C), 1);
        let (a, b) = both(&world, |w| w.check(A), |w| w.check(B));
        assert_eq!((a, b), (1, 1));
        // Two slots for three live keys: at least one of the newcomers is known, and refused.
        assert!(world.check(A) + world.check(B) <= 1);
    });
}

#[test]
fn two_threads_that_miss_a_key_whose_home_is_taken_admit_one_of_them() {
    loom::model(|| {
        let world = World::new(WhenFull::RefuseNew);
        assert_eq!(world.check(B), 1);
        let (one, two) = both(&world, |w| w.check(A), |w| w.check(A));
        assert_eq!(one + two, 1);
    });
}

#[test]
fn a_key_forgotten_twice_during_one_check_is_judged_by_the_latest_time() {
    // Too many steps for every interleaving; the race needs one forced switch.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        const C: u64 = 3;
        const D: u64 = 4;
        let world = World::new(WhenFull::EvictFullest);
        assert_eq!(world.check(A), 1);
        let (slow, quick) = both(
            &world,
            |w| w.check(A),
            |w| {
                w.set_clock(51);
                w.check(B);
                let admitted = w.check(A);
                w.set_clock(110);
                w.check(C);
                w.check(D);
                admitted
            },
        );
        // One token by 51 ms and one more by 101 ms.
        world.set_clock(111);
        assert!(slow + quick + world.check(A) <= 2);
    });
}
