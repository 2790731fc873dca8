//! A tag that goes to another quota, beside checks that read or write it.
//!
//! Under loom tags are taken back before every second one is given out.

use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;

use super::{A, BucketRule, Place, Quotas, START, SharedClock, TagUse, prepared};
use crate::clock::Clock;
use crate::memory::operation::{Check, Look};
use crate::memory::options::WhenFull;
use crate::table::Table;

/// Two quotas have tags 0 and 1; `gone` holds tag 1 as long as its use is held.
struct TagWorld {
    table: Table,
    quotas: std::sync::Arc<Quotas>,
    clock: SharedClock,
    stays: BucketRule,
    _stays_use: TagUse,
    gone: BucketRule,
}

impl TagWorld {
    fn new() -> (Arc<TagWorld>, TagUse) {
        let quotas = std::sync::Arc::new(Quotas::default());
        let (stays, stays_use) = prepared(&quotas, "20/s burst 10", |_| ());
        let (gone, gone_use) = prepared(&quotas, "10/s burst 2", |_| ());
        let table = Table::new(1, std::sync::Arc::clone(&quotas), WhenFull::EvictFullest);
        let clock = SharedClock(Arc::new(AtomicU64::new(START)));
        (Arc::new(TagWorld { table, quotas, clock, stays, _stays_use: stays_use, gone }), gone_use)
    }

    /// A third quota, which gets tag 1 if nothing uses it any more. Read under
    /// it, what `gone` wrote would be less than one token.
    fn new_quota(&self) -> (BucketRule, TagUse) {
        let now = self.clock.now_ns();
        prepared(&self.quotas, "1/h burst 10", |unused| self.table.leave_unused(unused, now))
    }

    fn charge(&self, rule: &BucketRule, cost: u64) -> bool {
        self.table.apply(Place { hash: A, rule }, &self.clock, &Check { cost }).unwrap().is_allowed()
    }

    fn remaining(&self, rule: &BucketRule) -> u64 {
        self.table.apply(Place { hash: A, rule }, &self.clock, &Look { cost: 0 }).unwrap().remaining
    }
}

#[test]
fn a_tag_that_a_check_is_about_to_write_is_given_to_no_other_quota() {
    loom::model(|| {
        let (world, gone_use) = TagWorld::new();
        let other = Arc::clone(&world);
        let charging = thread::spawn(move || {
            let passed = other.charge(&other.gone, 2);
            drop(gone_use);
            passed
        });
        let (rule, _use) = world.new_quota();
        let passed = world.charge(&rule, 1);
        let used = u64::from(passed) + 2 * u64::from(charging.join().unwrap());
        // Whichever came first, and whichever tag the new quota got.
        let remaining = world.remaining(&rule);
        assert!(used > 0 && remaining == 10 - used, "{used} used, {remaining} remain");
    });
}

#[test]
fn an_entry_is_read_under_the_quota_that_wrote_it_while_its_tag_changes_hands() {
    loom::model(|| {
        let (world, gone_use) = TagWorld::new();
        assert!(world.charge(&world.gone, 2));
        drop(gone_use);
        let other = Arc::clone(&world);
        let looking = thread::spawn(move || other.remaining(&other.stays));
        // At 200 ms the key is full again, so that its tag is free.
        world.clock.0.store(START + 200 * super::MS, loom::sync::atomic::Ordering::SeqCst);
        let (rule, _use) = world.new_quota();
        assert_eq!(rule.tag, world.gone.tag, "nothing uses it any more");
        assert!(world.charge(&rule, 2));
        let remaining = looking.join().unwrap();
        assert!(remaining == 8 || remaining == 10, "2 were used by either, or none: {remaining} remain");
    });
}

#[test]
fn a_tag_that_a_live_key_carries_is_kept() {
    loom::model(|| {
        let (world, gone_use) = TagWorld::new();
        assert!(world.charge(&world.gone, 2));
        drop(gone_use);
        let (rule, _use) = world.new_quota();
        assert_ne!(rule.tag, world.gone.tag);
        assert_eq!(world.remaining(&rule), 8);
    });
}
