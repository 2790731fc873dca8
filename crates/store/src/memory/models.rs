//! Loom models of joint checks on a table of two slots: every interleaving.
//!
//! `scripts/loom` runs them. They test the second pass: a failed swap must not count as a charge, and a refused request
//! must leave no charge behind.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use tollgate_core::{Decision, Quota};

use super::MemoryStore;
use crate::clock::Clock;
use crate::limit::Limit;
use crate::memory::options::{Capacity, MemoryOptions, WhenFull};
use crate::store::charge::{Charge, ChargeMode, KeyHash};

/// Keys by their hashes. Each has its own home line.
const A: u64 = 1;
const B: u64 = 1 << 63 | 2;

/// A clock that loom knows, so that its readings are interleaved too.
struct ModelClock(Arc<AtomicU64>);

impl Clock for ModelClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

struct StoreModel {
    store: MemoryStore,
    limit: Limit,
}

impl StoreModel {
    /// Creates a store with two known keys, each with one of two tokens left.
    fn new() -> Arc<StoreModel> {
        let options = MemoryOptions { capacity: Capacity::Entries(1), when_full: WhenFull::RefuseNew };
        let clock = ModelClock(Arc::new(AtomicU64::new(1_000_000_000)));
        let store = MemoryStore::with(options, clock).unwrap();
        let quota = Quota::token_bucket("20/s burst 2".parse().unwrap()).unwrap();
        let limit = store.limit("scope", quota).unwrap();
        let model_store = StoreModel { store, limit };
        assert!(model_store.decide([A]) && model_store.decide([B]));
        Arc::new(model_store)
    }

    fn decide<const N: usize>(&self, keys: [u64; N]) -> bool {
        let charges = keys.map(|hash| Charge {
            limit: &self.limit,
            key: KeyHash(hash),
            cost: 1,
            mode: ChargeMode::Enforce,
            receipt: false,
        });
        self.store.check_all_into(&charges, &mut [Decision::UNDECIDED; N])
    }
}

/// Runs both in parallel, and returns their results.
fn both<R: Send + 'static>(
    model_store: &Arc<StoreModel>,
    one: impl FnOnce(&StoreModel) -> R + Send + 'static,
    two: impl FnOnce(&StoreModel) -> R + 'static,
) -> (R, R) {
    let there = Arc::clone(model_store);
    let handle = thread::spawn(move || one(&there));
    let two = two(model_store);
    (handle.join().unwrap(), two)
}

/// Runs a model with at most three preemptions: enough for every order in which two threads can collide at two keys.
/// (Without a bound all three models pass too, in five minutes.)
fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(run);
}

#[test]
fn joint_check_whose_last_key_is_taken_meanwhile_does_not_charge_its_first_key() {
    model(|| {
        let model_store = StoreModel::new();
        let (whole, single) = both(&model_store, |w| w.decide([A, B]), |w| w.decide([B]));
        assert!(whole != single, "one token of B is left, and one of the two has it");
        assert_eq!(model_store.decide([A]), !whole, "A was charged if the whole passed");
        assert!(!model_store.decide([B]));
    });
}

#[test]
fn joint_checks_in_opposite_order_admit_at_most_one_and_leave_no_charge() {
    model(|| {
        let model_store = StoreModel::new();
        let (one, two) = both(&model_store, |w| w.decide([A, B]), |w| w.decide([B, A]));
        assert!(!(one && two));
        // Each may have seen the charge that the other undid.
        assert_eq!(model_store.decide([A]), !(one || two));
        assert_eq!(model_store.decide([B]), !(one || two));
    });
}

#[test]
fn joint_check_that_charges_one_key_twice_needs_two_tokens() {
    model(|| {
        let model_store = StoreModel::new();
        let (twice, single) = both(&model_store, |w| w.decide([A, A]), |w| w.decide([B]));
        assert!(!twice && single);
        assert!(model_store.decide([A]), "the first of both was taken back");
    });
}
