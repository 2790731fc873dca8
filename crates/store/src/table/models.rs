//! Loom models of a few threads on a table of two slots: every interleaving.
//!
//! Under loom a line has one slot and a key two lines, so that two keys collide at once and the whole protocol (hit,
//! miss, claim, reuse, eviction) takes a few steps. `scripts/loom` runs them.

mod tags;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use tollgate_core::{Bucket, Quota, Tick};

use super::{BucketKey, BucketTable};
use crate::clock::Clock;
use crate::limit::TaggedBucket;
use crate::memory::operation::{CheckOp, CheckWithReceiptOp, RefundOp};
use crate::memory::options::WhenFull;
use crate::table::full::TableFull;
use crate::table::quotas::{Quotas, TagUse};

const MS: u64 = 1_000_000;
const START: u64 = 1_000 * MS;
/// Both keys have line 0 as their home; their fingerprints differ.
const A: u64 = 1;
const B: u64 = 2;

/// A clock that loom knows, so that its readings are interleaved too.
#[derive(Clone)]
struct TableModelClock(Arc<AtomicU64>);

impl Clock for TableModelClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

struct TableModel {
    table: BucketTable,
    clock: TableModelClock,
    quota: TaggedBucket,
    other_quota: TaggedBucket,
    _tag_uses: [TagUse; 2],
}

impl TableModel {
    /// Creates a table of two slots, and buckets of one token that refills in 50 ms.
    fn new(when_full: WhenFull) -> Arc<TableModel> {
        let quotas = std::sync::Arc::new(Quotas::default());
        let (quota, tag_use) = prepared(&quotas, "20/s burst 1", |_| ());
        let (other_quota, other_use) = prepared(&quotas, "10/s burst 1", |_| ());
        let table = BucketTable::new(1, quotas, when_full);
        let clock = TableModelClock(Arc::new(AtomicU64::new(START)));
        Arc::new(TableModel { table, clock, quota, other_quota, _tag_uses: [tag_use, other_use] })
    }

    fn set_clock(&self, ms_after_start: u64) {
        self.clock.0.store(START + ms_after_start * MS, Ordering::SeqCst);
    }

    /// Returns 1 if the check was admitted.
    fn check(&self, hash: u64) -> u64 {
        self.check_under(&self.quota, hash)
    }

    /// Checks like a store: a hit first, then the general case.
    fn check_under(&self, quota: &TaggedBucket, hash: u64) -> u64 {
        let key = BucketKey { hash, quota };
        let decision = match self.table.check_hit(key, self.clock.now_ns(), 1) {
            Some(checked) => Ok(checked.decision),
            None => self.table.apply(key, &self.clock, &CheckOp { cost: 1 }),
        };
        match decision {
            Ok(decision) => u64::from(decision.is_allowed()),
            Err(TableFull) => 0,
        }
    }
}

/// Returns a bucket quota with its tag.
fn prepared(quotas: &Quotas, rate: &str, unmark_live_tags: impl FnOnce(&mut Vec<bool>)) -> (TaggedBucket, TagUse) {
    let quota = Quota::token_bucket(rate.parse().unwrap()).unwrap();
    let bucket = Bucket::new(&quota, Tick::Nanosecond).unwrap();
    let (quota_tag, tag_use) = quotas.tag(bucket, &quota, unmark_live_tags).unwrap();
    (TaggedBucket { bucket, quota_tag }, tag_use)
}

fn both(
    model: &Arc<TableModel>,
    one: impl FnOnce(&TableModel) -> u64 + Send + 'static,
    two: impl FnOnce(&TableModel) -> u64,
) -> (u64, u64) {
    let other = Arc::clone(model);
    let first = thread::spawn(move || one(&other));
    let second = two(model);
    (first.join().unwrap(), second)
}

#[test]
fn two_threads_that_miss_one_key_admit_one_of_them() {
    loom::model(|| {
        let model = TableModel::new(WhenFull::EvictLeastUsed);
        let (one, two) = both(&model, |w| w.check(A), |w| w.check(A));
        assert_eq!(one + two, 1);
    });
}

#[test]
fn two_threads_that_hit_one_key_admit_one_of_them() {
    loom::model(|| {
        let model = TableModel::new(WhenFull::EvictLeastUsed);
        assert_eq!(model.check(A), 1);
        model.set_clock(50);
        let (one, two) = both(&model, |w| w.check(A), |w| w.check(A));
        assert_eq!(one + two, 1);
    });
}

#[test]
fn slot_given_to_another_key_takes_no_charge_for_the_first() {
    loom::model(|| {
        let model = TableModel::new(WhenFull::RefuseNew);
        assert_eq!(model.check(A), 1);
        model.set_clock(50);
        // A is full again, so that B may take its slot while A is charged there.
        let (a, b) = both(&model, |w| w.check(A), |w| w.check(B));
        assert_eq!((a, b), (1, 1), "there is room for both");
        assert_eq!(model.check(A), 0, "A has spent its token");
        assert_eq!(model.check(B), 0, "B has spent its token");
    });
}

#[test]
fn removal_of_a_key_does_not_remove_the_next_key_in_its_slot() {
    loom::model(|| {
        let model = TableModel::new(WhenFull::RefuseNew);
        assert_eq!(model.check(A), 1);
        model.set_clock(50);
        // A has expired, so that B may take its slot while A is removed.
        let (_, b) = both(&model, |w| w.table.remove(A, &w.clock).unwrap_or(0), |w| w.check(B));
        assert_eq!(b, 1);
        assert_eq!(model.check(B), 0, "B has spent its token");
    });
}

#[test]
fn old_time_does_not_make_a_removed_key_full_earlier() {
    loom::model(|| {
        let model = TableModel::new(WhenFull::RefuseNew);
        assert_eq!(model.check(A), 1);
        let (a, _) = both(
            &model,
            |w| w.check(A),
            |w| {
                w.set_clock(51);
                w.check(B)
            },
        );
        // If A was admitted, it was at 51 ms, and A is empty until 101 ms.
        model.set_clock(100);
        assert!(a + model.check(A) <= 1);
    });
}

#[test]
fn key_that_expires_and_returns_has_one_entry() {
    loom::model(|| {
        let model = TableModel::new(WhenFull::RefuseNew);
        assert_eq!(model.check(A), 1);
        assert_eq!(model.check(B), 1);
        model.set_clock(50);
        let (one, two) = both(&model, |w| w.check(A), |w| w.check(A));
        assert_eq!(one + two, 1);
        assert_eq!(model.check(A), 0);
    });
}

#[test]
fn concurrent_refund_and_check_refund_exactly_one_token() {
    loom::model(|| {
        let model = TableModel::new(WhenFull::EvictLeastUsed);
        let key = BucketKey { hash: A, quota: &model.quota };
        let (decision, charged) = model.table.apply(key, &model.clock, &CheckWithReceiptOp { cost: 1 }).unwrap();
        assert!(decision.is_allowed());
        let (check, _) = both(
            &model,
            |w| w.check(A),
            |w| {
                let key = BucketKey { hash: A, quota: &w.quota };
                w.table.apply(key, &w.clock, &RefundOp { charged: &charged }).unwrap();
                0
            },
        );
        // One token was refunded, and the first check gets it.
        assert_eq!(check + model.check(A), 1);
    });
}

#[test]
fn quota_change_during_a_charge_refills_nothing() {
    loom::model(|| {
        let model = TableModel::new(WhenFull::EvictLeastUsed);
        let (one, two) = both(&model, |w| w.check(A), |w| w.check_under(&w.other_quota, A));
        assert_eq!(one + two, 1);
        assert_eq!(model.check(A), 0);
        assert_eq!(model.check_under(&model.other_quota, A), 0);
    });
}

#[test]
fn concurrent_evictions_from_one_line_keep_a_new_entry() {
    loom::model(|| {
        let model = TableModel::new(WhenFull::EvictLeastUsed);
        const C: u64 = 3;
        assert_eq!(model.check(C), 1);
        let (a, b) = both(&model, |w| w.check(A), |w| w.check(B));
        assert_eq!((a, b), (1, 1));
        // Two slots for three live keys: at least one of the new keys is known, and refused.
        assert!(model.check(A) + model.check(B) <= 1);
    });
}

#[test]
fn two_threads_that_miss_a_key_with_a_full_home_line_admit_one() {
    loom::model(|| {
        let model = TableModel::new(WhenFull::RefuseNew);
        assert_eq!(model.check(B), 1);
        let (one, two) = both(&model, |w| w.check(A), |w| w.check(A));
        assert_eq!(one + two, 1);
    });
}

#[test]
fn key_removed_twice_during_one_check_is_judged_by_the_latest_time() {
    // Too many steps for every interleaving; the race needs one preemption.
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        const C: u64 = 3;
        const D: u64 = 4;
        let model = TableModel::new(WhenFull::EvictLeastUsed);
        assert_eq!(model.check(A), 1);
        let (slow, quick) = both(
            &model,
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
        model.set_clock(111);
        assert!(slow + quick + model.check(A) <= 2);
    });
}
