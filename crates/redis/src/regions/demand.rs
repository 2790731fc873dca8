//! What is asked of each key in this instance, for the report of its region.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate_core::Quota;

use super::messages::ScopedKey;

/// The most keys that one instance counts in an epoch. Those beyond keep the base share of their region.
pub(super) const MAX_KEYS: usize = 100_000;

const SHARDS: usize = 32;

/// What is asked of each key: the tokens that requests would need, whether they pass or not.
#[derive(Debug)]
pub(super) struct RegionDemand {
    shards: Vec<Mutex<DemandShard>>,
    hasher: RandomState,
    /// The number of keys in all shards, and of those that are being added.
    keys: AtomicUsize,
}

#[derive(Debug, Default)]
struct DemandShard {
    asked: HashMap<ScopedKey, DemandedTokens>,
    /// Whether there were more keys than are counted.
    is_incomplete: bool,
}

/// What is asked of one key, and its limit's whole rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DemandedTokens {
    pub(super) tokens: u64,
    pub(super) amount: u64,
    pub(super) period_ns: u64,
}

impl RegionDemand {
    pub(super) fn new() -> RegionDemand {
        RegionDemand {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            keys: AtomicUsize::new(0),
        }
    }

    /// Counts a request of `cost` for a key of a limit.
    pub(super) fn count(&self, key: &[u8], cost: u64, limit: &Quota) {
        let shard = &self.shards[self.hasher.hash_one(key) as usize % SHARDS];
        let mut shard = lock(shard);
        if let Some(asked) = shard.asked.get_mut(key) {
            asked.tokens = asked.tokens.saturating_add(cost);
        } else if self.has_room_for_another() {
            let asked = DemandedTokens { tokens: cost, amount: limit.amount(), period_ns: limit.period_ns() };
            shard.asked.insert(ScopedKey::from_bytes(key), asked);
        } else {
            shard.is_incomplete = true;
        }
    }

    fn has_room_for_another(&self) -> bool {
        let has_room = self.keys.fetch_add(1, Ordering::Relaxed) < MAX_KEYS;
        if !has_room {
            self.keys.fetch_sub(1, Ordering::Relaxed);
        }
        has_room
    }

    /// Takes what was asked since the last call, and whether that is complete.
    pub(super) fn take(&self) -> (Vec<(ScopedKey, DemandedTokens)>, bool) {
        let (mut all, mut is_complete) = (Vec::new(), true);
        for shard in &self.shards {
            let shard = std::mem::take(&mut *lock(shard));
            is_complete &= !shard.is_incomplete;
            self.keys.fetch_sub(shard.asked.len(), Ordering::Relaxed);
            all.extend(shard.asked);
        }
        // The same order in every run, so that simulations are reproducible.
        all.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        (all, is_complete)
    }
}

fn lock(shard: &Mutex<DemandShard>) -> MutexGuard<'_, DemandShard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns what part of a limit's rate was asked in a span, in millionths, with an eighth to spare so that demand may
/// grow; at most the whole.
pub(super) fn needed_millionths(asked: DemandedTokens, span_us: u64) -> u32 {
    let asked_rate = u128::from(asked.tokens) * u128::from(asked.period_ns) * 1_000;
    let rate = u128::from(asked.amount.max(1)) * u128::from(span_us.max(1));
    let needed = asked_rate.div_ceil(rate);
    (needed + needed / 8).min(1_000_000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit() -> Quota {
        Quota::token_bucket("50/s burst 100".parse().unwrap()).unwrap()
    }

    #[test]
    fn demand_of_equal_keys_is_added_and_taken_once() {
        let demand = RegionDemand::new();
        for (key, cost) in [(b"a", 2), (b"b", 1), (b"a", 3)] {
            demand.count(key, cost, &limit());
        }
        let asked = |tokens| DemandedTokens { tokens, amount: 50, period_ns: 1_000_000_000 };
        let expected = vec![(ScopedKey::from_bytes(b"a"), asked(5)), (ScopedKey::from_bytes(b"b"), asked(1))];
        assert_eq!(demand.take(), (expected, true));
        assert_eq!(demand.take(), (vec![], true));
    }

    #[test]
    fn keys_are_bounded_and_the_rest_is_reported_as_incomplete() {
        let demand = RegionDemand::new();
        let count = |keys: usize| {
            (0..keys as u64).for_each(|number| demand.count(&number.to_le_bytes(), 1, &limit()));
            let (asked, is_complete) = demand.take();
            (asked.len(), is_complete)
        };
        for _ in 0..2 {
            assert_eq!(count(MAX_KEYS), (MAX_KEYS, true));
            assert_eq!(count(MAX_KEYS + 1), (MAX_KEYS, false));
        }
    }

    #[test]
    fn need_is_a_fraction_of_the_whole_rate_with_an_eighth_to_spare() {
        // 100 tokens in ten seconds, of a limit of 50 a second.
        let asked = DemandedTokens { tokens: 100, amount: 50, period_ns: 1_000_000_000 };
        assert_eq!(needed_millionths(asked, 10_000_000), 225_000);
        assert_eq!(needed_millionths(DemandedTokens { tokens: 1_000_000, ..asked }, 10_000_000), 1_000_000);
        assert_eq!(needed_millionths(DemandedTokens { tokens: 0, ..asked }, 0), 0);
        let slow = DemandedTokens { tokens: 1, amount: 1, period_ns: 86_400_000_000_000 };
        assert_eq!(needed_millionths(slow, 10_000_000), 1_000_000);
    }
}
