//! A store returns the decisions of the pure functions, for any operations in any order.

#![allow(clippy::unwrap_used)]

mod model;
mod quotas;

use model::pair::{KEYS, Pair, SCOPES, Step, Target};
use proptest::collection::vec;
use proptest::prelude::*;
use quotas::{any_cost, any_tight_quota, cases};

fn any_target() -> impl Strategy<Value = Target> + Clone {
    (0_usize..8, 0..KEYS).prop_map(|(limit, key)| Target { limit, key })
}

/// From within a token to past everything.
fn any_span_ns() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![0_u64..3, 1_u64..1_000, 1_u64..3_000_000, 1_u64..30_000_000]
}

fn any_step() -> impl Strategy<Value = Step> {
    let charges = vec((any_target(), any_cost()), 1..5);
    prop_oneof![
        8 => any_span_ns().prop_map(Step::Forward),
        2 => any_span_ns().prop_map(Step::Back),
        3 => any_target().prop_map(Step::Peek),
        10 => (any_target(), any_cost()).prop_map(|(target, cost)| Step::Check(target, cost)),
        6 => (any_target(), any_cost()).prop_map(|(target, cost)| Step::CheckWithReceipt(target, cost)),
        4 => (any_target(), any_cost(), prop_oneof![any_span_ns(), Just(u64::MAX)])
            .prop_map(|(target, cost, patience)| Step::Reserve(target, cost, patience)),
        2 => charges.clone().prop_map(Step::CheckAll),
        2 => charges.prop_map(Step::CheckAllWithReceipts),
        4 => any::<usize>().prop_map(Step::Refund),
        3 => (any::<usize>(), any_cost()).prop_map(|(receipt, cost)| Step::Settle(receipt, cost)),
        1 => any::<usize>().prop_map(Step::Renew),
        2 => (any_target(), any_cost()).prop_map(|(target, cost)| Step::Penalise(target, cost)),
        1 => any_target().prop_map(Step::Reset),
    ]
}

/// The beginning of time, now, and its end.
fn any_start() -> impl Strategy<Value = u64> {
    prop_oneof![6 => (1_u64 << 60)..(2_u64 << 60), 1 => 0_u64..10_000_000, 1 => (u64::MAX - 10_000_000)..=u64::MAX]
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn store_returns_the_decisions_of_the_pure_functions(
        quotas in vec((0..SCOPES, any_tight_quota()), 1..7),
        start in any_start(),
        steps in vec(any_step(), 1..60),
    ) {
        let mut pair = Pair::new(&quotas, start);
        for step in &steps {
            pair.step(step);
        }
        pair.peek_everything();
        pair.refund_everything();
        pair.peek_everything();
        let stats = pair.store.stats();
        prop_assert_eq!((stats.evictions, stats.refused_full), (0, 0));
    }

    #[test]
    fn quotas_of_one_family_take_over_like_the_pure_functions(
        family in vec(any_tight_quota(), 16),
        start in any_start(),
        steps in vec(any_step(), 1..60),
    ) {
        let first = family[0].kind();
        let is_bucket = |kind| quotas::is_bucket(kind);
        let family: Vec<_> = family
            .into_iter()
            .filter(|quota| quota.kind() == first || is_bucket(quota.kind()) && is_bucket(first))
            .map(|quota| (0, quota))
            .collect();
        let mut pair = Pair::new(&family, start);
        for step in &steps {
            pair.step(step);
        }
        pair.peek_everything();
    }
}
