//! A cache of keys that are known to be exhausted, so that further checks are refused without a call.
//!
//! A key is exhausted while it has no capacity for a cost of 1, or while a block refuses its requests. Then no instance
//! can charge it, its state does not change, and the decision for every cost, with all its numbers, follows from that
//! state. As soon as a charge could pass, or after a refund, the entry is not valid any more.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::Instant;
use tollgate_core::Decision;
use tollgate_store::{ChargeMode, Limit, Refusals};

use crate::call::TICK;
use crate::script::{KnownState, known_states};
use crate::store::Inner;
use crate::store::batch::{BatchAnswer, SlotRequest};
use crate::store::breaker::shards::TrackedCall;
use crate::store::limit::RedisLimitData;

/// How long a refusal is cached at most if a refund by another instance could end it early. Other refusals are used for
/// longer only while this instance reads the resets of keys: see [`RefusalCache::require_sync`].
const CACHE_TTL: Duration = Duration::from_secs(1);

const SHARDS: usize = 16;

/// Exhausted keys, by key and limit. Bounded: entries of a shard at its capacity are evicted.
pub(crate) struct RefusalCache {
    shards: Vec<Mutex<CacheShard>>,
    keys_per_shard: usize,
    /// The number of cached keys, read without a lock. Usually there are none.
    keys: AtomicUsize,
    started: Instant,
    /// The time until which cached refusals may be used for longer than [`CACHE_TTL`], in nanoseconds from `started`: a
    /// [`CACHE_TTL`] after this instance has last read all resets of keys. `u64::MAX` if keys cannot be reset.
    synced_until_ns: AtomicU64,
}

#[derive(Default)]
struct CacheShard {
    /// The entries of all limits of a key are stored under the key alone, so that a lookup copies nothing.
    by_key: HashMap<Box<[u8]>, SmallVec<[CachedKey; 2]>>,
    /// The time of the last removal because of a refund. Refusals of calls sent before it may be outdated.
    removed_at: Option<Instant>,
}

/// The entry of a key for one limit.
#[derive(Clone)]
struct CachedKey {
    limit: Limit,
    exhausted: ExhaustedKey,
    /// The time until which the entry is valid.
    until: Instant,
}

/// The state of an exhausted key.
#[derive(Clone, Debug)]
pub(crate) struct ExhaustedKey {
    pub(crate) known_state: KnownState,
    /// The server's clock at the time of that state, in microseconds.
    pub(crate) at_us: u64,
    /// The time at which the call was sent: the state is not older.
    pub(crate) sent_at: Instant,
    /// The time at which the reply arrived: the state is not newer.
    pub(crate) answered_at: Instant,
    /// The time for which the key stays exhausted without a refund, from that state on.
    pub(crate) exhausted_for: Duration,
}

impl CachedKey {
    /// Returns whether the entry is of a limit with the same scope, and so of the same key on the server.
    fn has_scope_of(&self, limit: &Limit) -> bool {
        RedisLimitData::of(&self.limit).prefix_and_scope == RedisLimitData::of(limit).prefix_and_scope
    }
}

impl RefusalCache {
    pub(crate) fn new(keys: usize) -> RefusalCache {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let (started, synced_until_ns) = (Instant::now(), AtomicU64::new(u64::MAX));
        RefusalCache {
            shards,
            keys_per_shard: keys.div_ceil(SHARDS),
            keys: AtomicUsize::new(0),
            started,
            synced_until_ns,
        }
    }

    /// From now on, cached refusals older than [`CACHE_TTL`] are used only while this instance reads the resets of
    /// keys: see [`RefusalCache::overrides_read_at`].
    pub(crate) fn require_sync(&self) {
        self.synced_until_ns.store(0, Ordering::Relaxed);
    }

    /// Records a read of the overrides and resets that was requested `at`: all resets that were announced before `at`
    /// have been applied here. So cached refusals older than [`CACHE_TTL`] may be used until a [`CACHE_TTL`] after
    /// `at`.
    pub(crate) fn overrides_read_at(&self, at: Instant) {
        let until = at.saturating_duration_since(self.started) + CACHE_TTL;
        self.synced_until_ns.fetch_max(nanoseconds(until), Ordering::Relaxed);
    }

    fn is_synced(&self, now: Instant) -> bool {
        nanoseconds(now.saturating_duration_since(self.started)) < self.synced_until_ns.load(Ordering::Relaxed)
    }

    /// Returns whether the cache is empty, as it usually is.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.load(Ordering::Relaxed) == 0
    }

    /// Returns the decision for a charge if its key is known to be exhausted. Its times are never too short, and too
    /// long by at most the round trip of the call that returned the state.
    pub(crate) fn find(&self, limit: &Limit, key: &[u8], cost: u64, now: Instant) -> Option<Decision> {
        let shard = self.shard(key);
        let is_valid =
            |known: &CachedKey| now < known.until && (now < known.exhausted.sent_at + CACHE_TTL || self.is_synced(now));
        let is_known = |known: &&CachedKey| known.limit == *limit && is_valid(known);
        let ExhaustedKey { known_state, at_us, answered_at, .. } =
            &shard.by_key.get(key)?.iter().find(is_known)?.exhausted;
        let elapsed_us = nanoseconds(now.saturating_duration_since(*answered_at)) / TICK.ns();
        known_state.peek(limit, at_us.saturating_add(elapsed_us), cost)
    }

    /// Replaces the entries that a key has for limits with the scope of `limit` by one with the exhausted state, or
    /// removes them if the key is not exhausted.
    pub(crate) fn replace(&self, limit: &Limit, key: &[u8], exhausted: Option<ExhaustedKey>, now: Instant) {
        if exhausted.is_none() && self.is_empty() {
            return;
        }
        let mut shard = self.shard(key);
        let before = shard.by_key.len();
        self.replace_in(&mut shard, limit, key, exhausted, now);
        self.recount(before, shard.by_key.len());
    }

    fn replace_in(
        &self,
        shard: &mut CacheShard,
        limit: &Limit,
        key: &[u8],
        exhausted: Option<ExhaustedKey>,
        now: Instant,
    ) {
        if let Some(known) = shard.by_key.get_mut(key) {
            // Limits with the same scope share the key on the server, so their entries are outdated too.
            known.retain(|known| now < known.until && !known.has_scope_of(limit));
            if known.is_empty() {
                shard.by_key.remove(key);
            }
        }
        let Some(exhausted) = exhausted else { return };
        let valid_for = match limit.options().refusals {
            Refusals::Brief | Refusals::Counted | Refusals::Guarded => exhausted.exhausted_for.min(CACHE_TTL),
            Refusals::Final => exhausted.exhausted_for,
        };
        let until = exhausted.sent_at + valid_for;
        if now >= until || shard.removed_at.is_some_and(|removed_at| exhausted.sent_at <= removed_at) {
            return;
        }
        if shard.by_key.len() >= self.keys_per_shard && !shard.by_key.contains_key(key) {
            shard.evict(self.keys_per_shard, now);
        }
        shard.by_key.entry(key.into()).or_default().push(CachedKey { limit: limit.clone(), exhausted, until });
    }

    /// Removes a key because of a refund. States from calls sent before are not cached from then on.
    pub(crate) fn remove(&self, key: &[u8], now: Instant) {
        let mut shard = self.shard(key);
        let before = shard.by_key.len();
        shard.by_key.remove(key);
        shard.removed_at = Some(now);
        self.recount(before, shard.by_key.len());
    }

    /// Removes all keys, for example after resets that this instance may not have read.
    pub(crate) fn remove_all(&self, now: Instant) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            self.recount(shard.by_key.len(), 0);
            *shard = CacheShard { by_key: HashMap::new(), removed_at: Some(now) };
        }
    }

    /// Updates the number of keys after a change of one shard. The shard's lock is held, so the number is never too
    /// small.
    fn recount(&self, before: usize, after: usize) {
        if after >= before {
            self.keys.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.keys.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    fn shard(&self, key: &[u8]) -> MutexGuard<'_, CacheShard> {
        lock(&self.shards[shard_index(key, SHARDS)])
    }
}

impl CacheShard {
    /// Removes expired entries; if more than half of the keys are left, all of them.
    fn evict(&mut self, max_keys: usize, now: Instant) {
        self.by_key.retain(|_, entries| {
            entries.retain(|known| now < known.until);
            !entries.is_empty()
        });
        if self.by_key.len() > max_keys / 2 {
            self.by_key.clear();
        }
    }
}

fn lock(shard: &Mutex<CacheShard>) -> MutexGuard<'_, CacheShard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the shard of a key. It is the same in every run, so that tests are reproducible.
///
/// A client that chooses keys of one shard only causes brief contention, and gains nothing. So a fast hash suffices.
fn shard_index(key: &[u8], shards: usize) -> usize {
    let hash = key.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    // The upper bits depend on all bytes.
    (hash >> 16) as usize % shards.max(1)
}

impl Inner {
    /// Updates the cache from an answer. After a refusal, exhausted keys are cached.
    pub(in crate::store) fn update_refusal_cache(
        &self,
        request: &SlotRequest,
        answer: &BatchAnswer,
        tracked: &TrackedCall,
        sent_at: Instant,
        answered_at: Instant,
    ) {
        if !self.settings.caches_refusals {
            return;
        }
        let passed = answer.replayed.passed_count();
        let is_refused = passed < answer.times;
        // The age of a late answer is not known well enough.
        let known = (is_refused && answered_at <= tracked.deadline)
            .then(|| known_states(&request.charges, answer.now, passed, &answer.states_before))
            .flatten()
            .unwrap_or_default();
        for (index, (charge, key)) in request.charges.iter().zip(&request.keys).enumerate() {
            // If a key is charged twice, each charge affects the decision of the other.
            let is_alone = request.charges.iter().filter(|other| other.target.key == charge.target.key).count() == 1;
            let exhausted =
                known.get(index).filter(|known_state| is_alone && !known_state.is_large()).and_then(|known_state| {
                    let exhausted_for = self.exhausted_for(request, index, &known, answer.now)?;
                    Some(ExhaustedKey {
                        known_state: known_state.clone(),
                        at_us: answer.now,
                        sent_at,
                        answered_at,
                        exhausted_for,
                    })
                });
            let is_changed = passed > 0 && (charge.is_enforced() || charge.is_shadow());
            if is_refused || is_changed {
                self.refusals.replace(&charge.target.limit, key, exhausted, answered_at);
            }
        }
    }

    /// Returns the time for which a key is exhausted: because it has no capacity, or because all its guards (blocks)
    /// refuse. `None` if it is not exhausted.
    fn exhausted_for(
        &self,
        request: &SlotRequest,
        index: usize,
        known: &[KnownState],
        now_us: u64,
    ) -> Option<Duration> {
        let own_us = |index: usize| known[index].exhausted_for(&request.charges[index].target.limit, now_us);
        let charge = &request.charges[index];
        let mut exhausted_us = own_us(index);
        if charge.target.limit.options().refusals == Refusals::Guarded && charge.cost > 0 {
            let is_guard = |other: &usize| {
                let guard = &request.charges[*other];
                let is_final = guard.target.limit.options().refusals == Refusals::Final;
                is_final && request.keys[*other] == request.keys[index] && guard.mode == ChargeMode::Guard
            };
            // `None` is less than any time, so a guard that passes is the minimum.
            let guarded_us = (0..known.len()).filter(is_guard).map(own_us).min().flatten();
            exhausted_us = exhausted_us.max(guarded_us);
        }
        exhausted_us.map(Duration::from_micros)
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;
    use tollgate_core::{ChargeVerdict, Quota};
    use tollgate_store::{ChargeMode, LimitOptions, OnFailure};

    use super::*;
    use crate::call::{ReportedState, SlotCharge, Target};
    use crate::script::known_states;
    use crate::store::limit::prepare;

    /// A time in the past, in whole seconds.
    const AT_US: u64 = 1_700_000_000_000_000;

    fn limit(scope: &str, refusals: Refusals) -> Limit {
        let quota = Quota::sliding_window_log("5 per 2s".parse().unwrap()).unwrap();
        let options = LimitOptions { on_failure: OnFailure::Open, refusals, lease: None, regional: false };
        let prefix_and_scope = scope.as_bytes().into();
        let data = RedisLimitData::of_policy(prefix_and_scope);
        prepare(scope, quota, options, data).unwrap()
    }

    /// Returns the state of a key whose whole limit was used at once.
    fn exhausted(limit: &Limit, sent_at: Instant, answered_at: Instant) -> Option<ExhaustedKey> {
        let target = Target { key: b"alice".as_slice().into(), limit: limit.clone() };
        let charge = SlotCharge { target, cost: 1, mode: ChargeMode::Enforce };
        let reported = ReportedState::Log { used: 5, newest: AT_US, debt: 0, front: smallvec![(AT_US, 5)] };
        let known_state = known_states(&[charge], AT_US, 0, &[reported]).unwrap().remove(0);
        let exhausted_for = Duration::from_micros(known_state.exhausted_for(limit, AT_US).unwrap());
        Some(ExhaustedKey { known_state, at_us: AT_US, sent_at, answered_at, exhausted_for })
    }

    fn cache(refusals: Refusals, now: Instant) -> (RefusalCache, Limit) {
        let (cache, limit) = (RefusalCache::new(100), limit("a", refusals));
        cache.replace(&limit, b"alice", exhausted(&limit, now, now), now);
        (cache, limit)
    }

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn exhausted_key_decides_every_cost_of_its_limit_only() {
        let now = Instant::now();
        let (cache, limit) = cache(Refusals::Final, now);
        let verdict = |cost: u64| cache.find(&limit, b"alice", cost, now).unwrap().verdict;
        assert_eq!(verdict(0), ChargeVerdict::Allowed { delay: 0 });
        assert_eq!(verdict(1), ChargeVerdict::Refused { retry_after: Some(2_000_000_000) });
        assert_eq!(verdict(6), ChargeVerdict::Impossible);
        assert!(cache.find(&self::limit("a", Refusals::Final), b"alice", 1, now).is_none());
        assert!(cache.find(&limit, b"bob", 1, now).is_none());
    }

    #[test]
    fn times_count_from_the_reply_and_validity_from_the_call() {
        let (cache, limit, sent) = (RefusalCache::new(100), limit("a", Refusals::Final), Instant::now());
        cache.replace(&limit, b"alice", exhausted(&limit, sent, sent + ms(10)), sent + ms(10));
        let found = cache.find(&limit, b"alice", 2, sent + ms(510)).unwrap();
        assert_eq!(found.retry_after(), Some(1_500_000_000));
        assert_eq!((found.next_after, found.reset_after), (1_500_000_000, 1_500_000_000));
        assert!(cache.find(&limit, b"alice", 2, sent + ms(1_999)).is_some());
        assert!(cache.find(&limit, b"alice", 2, sent + ms(2_000)).is_none());
    }

    #[test]
    fn refusals_that_can_end_early_are_cached_for_a_second() {
        for refusals in [Refusals::Brief, Refusals::Counted, Refusals::Guarded] {
            let now = Instant::now();
            let (cache, limit) = cache(refusals, now);
            assert!(cache.find(&limit, b"alice", 2, now + ms(999)).is_some());
            assert!(cache.find(&limit, b"alice", 2, now + ms(1_000)).is_none());
        }
    }

    #[test]
    fn refusals_expire_after_a_second_without_reading_resets() {
        let now = Instant::now();
        let (cache, limit) = cache(Refusals::Final, now);
        cache.require_sync();
        let is_known = |after: u64| cache.find(&limit, b"alice", 2, now + ms(after)).is_some();
        assert!(is_known(999) && !is_known(1_000));
        cache.overrides_read_at(now + ms(800));
        assert!(is_known(1_799) && !is_known(1_800));
        cache.overrides_read_at(now + ms(500));
        assert!(is_known(1_799), "a late read does not shorten the validity");
    }

    #[test]
    fn newer_answer_replaces_the_entries_of_its_scope() {
        let now = Instant::now();
        let (cache, limit) = cache(Refusals::Final, now);
        let other = self::limit("b", Refusals::Final);
        cache.replace(&other, b"alice", exhausted(&other, now, now), now);
        // Another limit with the same scope.
        cache.replace(&self::limit("a", Refusals::Final), b"alice", None, now);
        assert!(cache.find(&limit, b"alice", 1, now).is_none());
        assert!(cache.find(&other, b"alice", 1, now).is_some());
        cache.replace(&other, b"alice", None, now);
        assert!(cache.find(&other, b"alice", 1, now).is_none());
    }

    #[test]
    fn refund_also_invalidates_answers_still_in_flight() {
        let now = Instant::now();
        let (cache, limit) = cache(Refusals::Final, now);
        cache.remove(b"alice", now + ms(1));
        assert!(cache.find(&limit, b"alice", 2, now + ms(1)).is_none());
        cache.replace(&limit, b"alice", exhausted(&limit, now, now + ms(2)), now + ms(2));
        assert!(cache.find(&limit, b"alice", 2, now + ms(2)).is_none());
        cache.replace(&limit, b"alice", exhausted(&limit, now + ms(3), now + ms(4)), now + ms(4));
        assert!(cache.find(&limit, b"alice", 2, now + ms(4)).is_some());
        cache.remove_all(now + ms(5));
        assert!(cache.find(&limit, b"alice", 2, now + ms(5)).is_none());
    }

    #[test]
    fn number_of_cached_keys_is_bounded() {
        let (cache, limit, now) = (RefusalCache::new(64), limit("a", Refusals::Final), Instant::now());
        for number in 0..10_000_u32 {
            cache.replace(&limit, number.to_string().as_bytes(), exhausted(&limit, now, now), now);
        }
        let held: usize = cache.shards.iter().map(|shard| lock(shard).by_key.len()).sum();
        assert!((16..=64).contains(&held), "{held}");
    }

    #[test]
    fn similar_keys_are_spread_evenly() {
        let mut counts = [0; 16];
        for number in 0..16_000 {
            counts[shard_index(format!("user-{number:07}").as_bytes(), 16)] += 1;
        }
        assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
    }
}
