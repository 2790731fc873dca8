//! The observations of callers, and the invariants that they must satisfy at the end.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_core::{AlgorithmKind, Charged, max_admitted};
use tollgate_store::OnFailure;

use super::plan::SimRule;
use crate::sim::world::{BEGAN_US, World};

/// A key's name on the servers.
pub(in crate::sim) type SimKey = Arc<[u8]>;

/// Pairs to be sorted by time.
pub(in crate::sim) type Times = Vec<(u64, u64)>;

/// The observations of all callers.
#[derive(Default)]
pub(in crate::sim) struct Observations {
    pub(in crate::sim) coverage: Coverage,
    /// Permits that callers hold, by key.
    pub(in crate::sim) held: HashMap<SimKey, Vec<(usize, Charged)>>,
    /// Ids of leases in the order of arrival, by request.
    pub(in crate::sim) order: HashMap<(usize, SimKey, u64, bool), Times>,
    /// The charges that servers allowed, by key: time and cost.
    pub(in crate::sim) admitted: HashMap<SimKey, (usize, Times)>,
    /// The charges that an instance's fallback allowed, by key, less refunds.
    pub(in crate::sim) counted_locally: HashMap<(usize, SimKey), (usize, i64)>,
}

impl Observations {
    /// Equal requests must be answered in the order of their arrival.
    pub(in crate::sim) fn check_order(&self, world: &mut World) {
        for ((instance, key, ..), answers) in &self.order {
            let mut in_order = answers.clone();
            in_order.sort_unstable();
            if !in_order.is_sorted_by_key(|(_, id)| *id) {
                let key = String::from_utf8_lossy(key);
                world.ledger.violate(format!("{instance} was answered out of order for {key}: {in_order:?}"));
            }
        }
    }

    /// The fallback of an instance must allow no more than its share.
    pub(in crate::sim) fn check_counted_locally(&self, world: &mut World, rules: &[SimRule]) {
        let span_ns = (world.now_us() - BEGAN_US) * 1_000;
        for ((instance, key), (rule, counted)) in &self.counted_locally {
            let OnFailure::Local { share } = rules[*rule].options.on_failure else { continue };
            let max = max_admitted(&rules[*rule].quota.share(share), span_ns);
            if max.is_some_and(|max| *counted > i64::try_from(max).unwrap_or(i64::MAX)) {
                let key = String::from_utf8_lossy(key);
                world.ledger.violate(format!("{instance} let {counted} pass alone for {key}, at most {max:?} may"));
            }
        }
    }

    /// For keys without refunds and losses, servers must allow no more in any span than the bound of the algorithm.
    pub(in crate::sim) fn check_bounds(&mut self, world: &mut World, rules: &[SimRule]) {
        for (key, (rule, admitted)) in &mut self.admitted {
            let quota = &rules[*rule].quota;
            if world.ledger.was_freed(key) || quota.kind() == AlgorithmKind::Concurrency {
                continue;
            }
            self.coverage.bounded += 1;
            admitted.sort_unstable();
            for (from, (started, _)) in admitted.iter().enumerate() {
                let mut passed = 0;
                for (at, cost) in &admitted[from..] {
                    passed += cost;
                    let max = max_admitted(quota, (at - started) * 1_000 + 1);
                    if max.is_some_and(|max| passed > max) {
                        let key = String::from_utf8_lossy(key);
                        world.ledger.violate(format!("{passed} passed for {key}, at most {max:?} may"));
                    }
                }
            }
        }
    }
}

/// Counts of the cases that occurred, to verify that a run of many seeds covers all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::sim) struct Coverage {
    pub(in crate::sim) passed: u64,
    pub(in crate::sim) refused: u64,
    pub(in crate::sim) cached: u64,
    pub(in crate::sim) fallbacks: u64,
    pub(in crate::sim) joined: u64,
    pub(in crate::sim) refunds: u64,
    pub(in crate::sim) opened: u64,
    pub(in crate::sim) dropped: u64,
    /// The number of keys compared with the bound of their algorithm.
    pub(in crate::sim) bounded: u64,
}

impl Coverage {
    pub(in crate::sim) fn add(&mut self, other: &Coverage) {
        self.passed += other.passed;
        self.refused += other.refused;
        self.cached += other.cached;
        self.fallbacks += other.fallbacks;
        self.joined += other.joined;
        self.refunds += other.refunds;
        self.opened += other.opened;
        self.dropped += other.dropped;
        self.bounded += other.bounded;
    }

    pub(in crate::sim) fn is_complete(&self) -> bool {
        let Coverage { passed, refused, cached, fallbacks, joined, refunds, opened, dropped, bounded } = *self;
        [passed, refused, cached, fallbacks, joined, refunds, opened, dropped, bounded].iter().all(|count| *count > 0)
    }
}
