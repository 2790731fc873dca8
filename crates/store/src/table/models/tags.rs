//! Loom models of a tag that is reassigned while checks read or write it.
//!
//! Under loom, unused tags are reclaimed before every second allocation.

use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;

use super::{A, BucketKey, Quotas, START, TableModelClock, TagUse, TaggedBucket, prepared};
use crate::clock::Clock;
use crate::memory::operation::{CheckOp, PeekOp};
use crate::memory::options::WhenFull;
use crate::table::BucketTable;

/// Two quotas have tags 0 and 1. `gone` owns tag 1 as long as its use is held.
struct TagModel {
    table: BucketTable,
    quotas: std::sync::Arc<Quotas>,
    clock: TableModelClock,
    stays: TaggedBucket,
    _stays_use: TagUse,
    gone: TaggedBucket,
}

impl TagModel {
    fn new() -> (Arc<TagModel>, TagUse) {
        let quotas = std::sync::Arc::new(Quotas::default());
        let (stays, stays_use) = prepared(&quotas, "20/s burst 10", |_| ());
        let (gone, gone_use) = prepared(&quotas, "10/s burst 2", |_| ());
        let table = BucketTable::new(1, std::sync::Arc::clone(&quotas), WhenFull::EvictLeastUsed);
        let clock = TableModelClock(Arc::new(AtomicU64::new(START)));
        (Arc::new(TagModel { table, quotas, clock, stays, _stays_use: stays_use, gone }), gone_use)
    }

    /// Creates a third quota, which gets tag 1 if nothing uses it any more. Read under this quota, the state that
    /// `gone` wrote would be less than one token.
    fn new_quota(&self) -> (TaggedBucket, TagUse) {
        let now = self.clock.now_ns();
        prepared(&self.quotas, "1/h burst 10", |unused| self.table.unmark_live_tags(unused, now))
    }

    fn charge(&self, quota: &TaggedBucket, cost: u64) -> bool {
        self.table.apply(BucketKey { hash: A, quota }, &self.clock, &CheckOp { cost }).unwrap().is_allowed()
    }

    fn remaining(&self, quota: &TaggedBucket) -> u64 {
        self.table.apply(BucketKey { hash: A, quota }, &self.clock, &PeekOp { cost: 0 }).unwrap().remaining
    }
}

#[test]
fn tag_that_a_check_is_about_to_write_is_not_reassigned() {
    loom::model(|| {
        let (model, gone_use) = TagModel::new();
        let other = Arc::clone(&model);
        let charging = thread::spawn(move || {
            let passed = other.charge(&other.gone, 2);
            drop(gone_use);
            passed
        });
        let (quota, _use) = model.new_quota();
        let passed = model.charge(&quota, 1);
        let used = u64::from(passed) + 2 * u64::from(charging.join().unwrap());
        // Whichever was first, and whichever tag the new quota got.
        let remaining = model.remaining(&quota);
        assert!(used > 0 && remaining == 10 - used, "{used} used, {remaining} remain");
    });
}

#[test]
fn entry_is_read_under_its_own_quota_while_its_tag_is_reassigned() {
    loom::model(|| {
        let (model, gone_use) = TagModel::new();
        assert!(model.charge(&model.gone, 2));
        drop(gone_use);
        let other = Arc::clone(&model);
        let looking = thread::spawn(move || other.remaining(&other.stays));
        // At 200 ms the key is full again, so that its tag is free.
        model.clock.0.store(START + 200 * super::MS, loom::sync::atomic::Ordering::SeqCst);
        let (quota, _use) = model.new_quota();
        assert_eq!(quota.quota_tag, model.gone.quota_tag, "nothing uses it any more");
        assert!(model.charge(&quota, 2));
        let remaining = looking.join().unwrap();
        assert!(remaining == 8 || remaining == 10, "2 were used by either, or none: {remaining} remain");
    });
}

#[test]
fn tag_of_a_live_key_is_not_reassigned() {
    loom::model(|| {
        let (model, gone_use) = TagModel::new();
        assert!(model.charge(&model.gone, 2));
        drop(gone_use);
        let (quota, _use) = model.new_quota();
        assert_ne!(quota.quota_tag, model.gone.quota_tag);
        assert_eq!(model.remaining(&quota), 8);
    });
}
