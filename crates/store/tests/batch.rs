//! A batch decides like its charges one after the other.

#![allow(clippy::unwrap_used)]

mod quotas;

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use quotas::{any_cost, any_tight_quota, cases};
use tollgate_store::{Capacity, ManualClock, MemoryOptions, MemoryStore, Quota, WhenFull};

/// Small, because every case has its own store.
const SMALL: MemoryOptions = MemoryOptions { capacity: Capacity::Entries(1_000), when_full: WhenFull::RefuseNew };

/// The batches, each after a pause: for each charge the limit, the key and the cost.
type Batches = Vec<(u64, Vec<(usize, u64, u64)>)>;

fn any_batches() -> impl Strategy<Value = Batches> {
    // Longer than the prefetch distance, with keys that recur.
    let batch = vec((0_usize..3, 0_u64..6, any_cost()), 0..40);
    vec((prop_oneof![Just(0), 1_u64..3_000_000], batch), 1..5)
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn batch_returns_the_decisions_of_single_checks(quotas in vec(any_tight_quota(), 3), batches in any_batches()) {
        let clock = ManualClock::at(1 << 60);
        let stores = [(), ()].map(|()| MemoryStore::with(SMALL, clock.clone()).unwrap());
        let [by_batch, by_one] = stores.each_ref().map(|store| {
            let limit = |(number, quota): (usize, &Quota)| store.limit(&number.to_string(), *quota).unwrap();
            quotas.iter().enumerate().map(limit).collect::<Vec<_>>()
        });
        let mut decisions = Vec::new();
        for (pause_ns, batch) in batches {
            clock.advance(Duration::from_nanos(pause_ns));
            let charges: Vec<_> =
                batch.iter().map(|(limit, key, cost)| stores[0].charge(&by_batch[*limit], key, *cost)).collect();
            stores[0].check_batch(&charges, &mut decisions);
            let one_by_one: Vec<_> =
                batch.iter().map(|(limit, key, cost)| stores[1].check(&by_one[*limit], key, *cost)).collect();
            prop_assert_eq!(&decisions, &one_by_one);
        }
    }
}

#[test]
fn empty_batch_clears_earlier_decisions() {
    let store = MemoryStore::with(SMALL, ManualClock::at(1 << 60)).unwrap();
    let limit = store.limit("all", Quota::token_bucket("5/s".parse().unwrap()).unwrap()).unwrap();
    let mut decisions = Vec::new();
    store.check_batch(&[store.charge(&limit, "ann", 1)], &mut decisions);
    assert_eq!(decisions.len(), 1);
    store.check_batch(&[], &mut decisions);
    assert!(decisions.is_empty());
}
