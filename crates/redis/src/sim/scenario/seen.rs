//! What was seen of a story, and what must be true of it when it is over.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_core::{AlgorithmKind, Charged, most_admitted};
use tollgate_store::OnFailure;

use super::plan::Rule;
use crate::sim::world::{BEGAN_US, World};

/// A key's name on the servers.
pub(in crate::sim) type Key = Arc<[u8]>;

/// Pairs that are brought into the order of time.
pub(in crate::sim) type Times = Vec<(u64, u64)>;

/// What callers saw.
#[derive(Default)]
pub(in crate::sim) struct Seen {
    pub(in crate::sim) coverage: Coverage,
    /// Permits that callers hold, by key.
    pub(in crate::sim) held: HashMap<Key, Vec<(usize, Charged)>>,
    /// Ids of leases in the order of arrival, by what was asked.
    pub(in crate::sim) order: HashMap<(usize, Key, u64, bool), Times>,
    /// What servers let pass, by key: when, and how much.
    pub(in crate::sim) admitted: HashMap<Key, (usize, Times)>,
    /// What passed on an instance's own count, by key, less what was given back.
    pub(in crate::sim) counted_here: HashMap<(usize, Key), (usize, i64)>,
}

impl Seen {
    /// Of those who ask the same, who comes first is answered first.
    pub(in crate::sim) fn check_order(&self, world: &mut World) {
        for ((instance, key, ..), answers) in &self.order {
            let mut in_order = answers.clone();
            in_order.sort_unstable();
            if !in_order.is_sorted_by_key(|(_, id)| *id) {
                let key = String::from_utf8_lossy(key);
                world.books.violate(format!("{instance} was answered out of order for {key}: {in_order:?}"));
            }
        }
    }

    /// An instance alone lets no more pass than its share.
    pub(in crate::sim) fn check_counted_here(&self, world: &mut World, rules: &[Rule]) {
        let span_ns = (world.now_us() - BEGAN_US) * 1_000;
        for ((instance, key), (rule, counted)) in &self.counted_here {
            let OnFailure::Local { share } = rules[*rule].options.on_failure else { continue };
            let most = most_admitted(&rules[*rule].quota.share(share), span_ns);
            if most.is_some_and(|most| *counted > i64::try_from(most).unwrap_or(i64::MAX)) {
                let key = String::from_utf8_lossy(key);
                world.books.violate(format!("{instance} let {counted} pass alone for {key}, at most {most:?} may"));
            }
        }
    }

    /// Where nothing was given back or lost, servers let no more pass in any span than the algorithm promises.
    pub(in crate::sim) fn check_bounds(&mut self, world: &mut World, rules: &[Rule]) {
        for (key, (rule, admitted)) in &mut self.admitted {
            let quota = &rules[*rule].quota;
            if world.books.is_loosened(key) || quota.kind() == AlgorithmKind::Concurrency {
                continue;
            }
            self.coverage.bounded += 1;
            admitted.sort_unstable();
            for (from, (began, _)) in admitted.iter().enumerate() {
                let mut passed = 0;
                for (at, cost) in &admitted[from..] {
                    passed += cost;
                    let most = most_admitted(quota, (at - began) * 1_000 + 1);
                    if most.is_some_and(|most| passed > most) {
                        let key = String::from_utf8_lossy(key);
                        world.books.violate(format!("{passed} passed for {key}, at most {most:?} may"));
                    }
                }
            }
        }
    }
}

/// What a run of many seeds came across, so that it is known that it came across everything.
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
    /// Keys whose admissions were held to the bound of their algorithm.
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
