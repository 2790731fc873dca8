//! Every interleaving of joint checks on a table of two slots.
//!
//! `scripts/loom` runs these. They are about the second pass: a failed swap must
//! not count as a charge, and a whole that is refused must leave nothing behind.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use tollgate_core::{Decision, Quota};

use super::MemoryStore;
use crate::clock::Clock;
use crate::limit::Limit;
use crate::memory::options::{Capacity, MemoryOptions, WhenFull};
use crate::store::charge::{Charge, KeyHash, Mode};

/// Keys by their hashes: each has a home line of its own.
const A: u64 = 1;
const B: u64 = 1 << 63 | 2;

/// A clock that loom sees, so that it also interleaves its readings.
struct SharedClock(Arc<AtomicU64>);

impl Clock for SharedClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

struct World {
    store: MemoryStore,
    limit: Limit,
}

impl World {
    /// Two known keys, each with one token of two left.
    fn new() -> Arc<World> {
        let options = MemoryOptions { capacity: Capacity::Entries(1), when_full: WhenFull::RefuseNew };
        let clock = SharedClock(Arc::new(AtomicU64::new(1_000_000_000)));
        let store = MemoryStore::with(options, clock).unwrap();
        let quota = Quota::token_bucket("20/s burst 2".parse().unwrap()).unwrap();
        let limit = store.limit("scope", quota).unwrap();
        let world = World { store, limit };
        assert!(world.decide([A]) && world.decide([B]));
        Arc::new(world)
    }

    fn decide<const N: usize>(&self, keys: [u64; N]) -> bool {
        let charges = keys.map(|hash| Charge {
            limit: &self.limit,
            key: KeyHash(hash),
            cost: 1,
            mode: Mode::Enforce,
            receipt: false,
        });
        self.store.decide_charges(&charges, &mut [Decision::UNDECIDED; N])
    }
}

/// Runs both at once and returns what they return.
fn both<R: Send + 'static>(
    world: &Arc<World>,
    one: impl FnOnce(&World) -> R + Send + 'static,
    two: impl FnOnce(&World) -> R + 'static,
) -> (R, R) {
    let there = Arc::clone(world);
    let handle = thread::spawn(move || one(&there));
    let two = two(world);
    (handle.join().unwrap(), two)
}

/// Three forced switches: enough for every order in which two threads can meet at two keys. (Without a bound all three
/// pass too, in five minutes.)
fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(run);
}

#[test]
fn a_whole_whose_last_key_is_taken_meanwhile_leaves_its_first_key_untouched() {
    model(|| {
        let world = World::new();
        let (whole, single) = both(&world, |w| w.decide([A, B]), |w| w.decide([B]));
        assert!(whole != single, "one token of B is left, and one of the two has it");
        assert_eq!(world.decide([A]), !whole, "A was charged if the whole passed");
        assert!(!world.decide([B]));
    });
}

#[test]
fn wholes_that_meet_in_opposite_order_admit_at_most_one_and_leave_nothing_behind() {
    model(|| {
        let world = World::new();
        let (one, two) = both(&world, |w| w.decide([A, B]), |w| w.decide([B, A]));
        assert!(!(one && two));
        // Each may have met the charge that the other took back.
        assert_eq!(world.decide([A]), !(one || two));
        assert_eq!(world.decide([B]), !(one || two));
    });
}

#[test]
fn a_whole_that_charges_one_key_twice_needs_two_tokens() {
    model(|| {
        let world = World::new();
        let (twice, single) = both(&world, |w| w.decide([A, A]), |w| w.decide([B]));
        assert!(!twice && single);
        assert!(world.decide([A]), "the first of both was taken back");
    });
}
