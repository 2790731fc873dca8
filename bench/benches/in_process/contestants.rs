//! Who is measured: tollgate, and what people use otherwise.

use std::hash::BuildHasher;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dashmap::DashMap;
use governor::RateLimiter;
use governor::clock::DefaultClock;
use governor::state::keyed::DashMapStateStore;
use tollgate_store::{Capacity, Decision, Limit, MemoryOptions, MemoryStore, Quota, Rate, RealClock};

use crate::keys::BenchKey;

/// The results of a number of checks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) allowed: u64,
    /// A sum over the other values of the decisions, so that the compiler cannot omit them.
    pub(crate) checksum: u64,
}

impl Tally {
    /// Adds the values of a decision. Keeping the whole struct alive would force it through memory, with a stall that
    /// callers do not have.
    #[inline]
    pub(crate) fn note(&mut self, decision: &Decision) {
        self.allowed += u64::from(decision.is_allowed());
        self.checksum = self.checksum.wrapping_add(decision.remaining ^ decision.retry_after().unwrap_or(0));
    }

    #[inline]
    fn note_bare(&mut self, is_allowed: bool) {
        self.allowed += u64::from(is_allowed);
    }
}

/// A limiter. The loop is inside `run`, so that nothing happens between two checks.
pub(crate) trait Contestant<K>: Sync {
    fn run(&self, keys: &[K], order: &[u32]) -> Tally;
}

/// A quota that every limiter can be built from.
#[derive(Clone, Copy)]
pub(crate) struct QuotaSpec {
    /// The time in which one token refills.
    pub(crate) token: Duration,
    pub(crate) burst: u32,
}

impl QuotaSpec {
    pub(crate) fn quota(self) -> Quota {
        let rate = Rate::new(1, self.token).and_then(|rate| rate.with_burst(u64::from(self.burst)));
        let quota = rate.map_err(Into::into).and_then(Quota::token_bucket);
        quota.unwrap_or_else(|error| panic!("a benchmark's quota is valid: {error}"))
    }

    fn governor(self) -> governor::Quota {
        let burst = NonZeroU32::new(self.burst).unwrap_or(NonZeroU32::MIN);
        let quota = governor::Quota::with_period(self.token).map(|quota| quota.allow_burst(burst));
        quota.unwrap_or_else(|| panic!("a token takes longer than nothing"))
    }
}

/// tollgate's memory store, one check at a time.
pub(crate) struct Tollgate {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) limit: Limit,
}

impl Tollgate {
    /// Creates a store for `capacity` live keys, which fill it to a load of 0.6.
    pub(crate) fn new(spec: QuotaSpec, capacity: usize) -> Tollgate {
        Tollgate::under(spec.quota(), capacity)
    }

    pub(crate) fn under(quota: Quota, capacity: usize) -> Tollgate {
        let options = MemoryOptions { capacity: Capacity::Entries(capacity), ..MemoryOptions::default() };
        let store = MemoryStore::with(options, RealClock::new()).unwrap_or_else(|error| panic!("{error}"));
        let limit = store.limit("bench", quota).unwrap_or_else(|error| panic!("{error}"));
        Tollgate { store: Arc::new(store), limit }
    }
}

impl<K: BenchKey> Contestant<K> for Tollgate {
    fn run(&self, keys: &[K], order: &[u32]) -> Tally {
        let mut tally = Tally::default();
        for &at in order {
            tally.note(&self.store.check(&self.limit, &keys[at as usize], 1));
        }
        tally
    }
}

/// The same store, 64 checks at a time, hashing included.
pub(crate) struct TollgateBatch {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) limit: Limit,
}

impl<K: BenchKey> Contestant<K> for TollgateBatch {
    fn run(&self, keys: &[K], order: &[u32]) -> Tally {
        const BATCH: usize = 64;
        let mut tally = Tally::default();
        let mut charges = Vec::with_capacity(BATCH);
        let mut decisions = Vec::with_capacity(BATCH);
        for batch in order.chunks(BATCH) {
            charges.clear();
            charges.extend(batch.iter().map(|&at| self.store.charge(&self.limit, &keys[at as usize], 1)));
            self.store.check_batch(&charges, &mut decisions);
            for decision in &decisions {
                tally.note(decision);
            }
        }
        tally
    }
}

/// governor, keyed, on its `DashMap` store and its default clock.
pub(crate) struct Governor<K: BenchKey, S: BuildHasher + Clone>(RateLimiter<K, DashMapStateStore<K, S>, DefaultClock>);

impl<K: BenchKey, S: BuildHasher + Clone + Default> Governor<K, S> {
    pub(crate) fn new(spec: QuotaSpec) -> Governor<K, S> {
        Governor(RateLimiter::dashmap_with_hasher(spec.governor(), S::default()))
    }
}

impl<K: BenchKey, S: BuildHasher + Clone> Governor<K, S> {
    #[inline]
    pub(crate) fn is_allowed(&self, key: &K) -> bool {
        self.0.check_key(key).is_ok()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl<K: BenchKey, S: BuildHasher + Clone + Send + Sync> Contestant<K> for Governor<K, S> {
    fn run(&self, keys: &[K], order: &[u32]) -> Tally {
        let mut tally = Tally::default();
        for &at in order {
            tally.note_bare(self.is_allowed(&keys[at as usize]));
        }
        tally
    }
}

/// A custom token bucket in ten lines: tokens and the time of their count, in a concurrent map.
pub(crate) struct CustomBucket<K: BenchKey> {
    buckets: DashMap<K, (f64, Instant)>,
    tokens_per_s: f64,
    burst: f64,
}

impl<K: BenchKey> CustomBucket<K> {
    pub(crate) fn new(spec: QuotaSpec) -> CustomBucket<K> {
        let tokens_per_s = 1.0 / spec.token.as_secs_f64();
        CustomBucket { buckets: DashMap::new(), tokens_per_s, burst: f64::from(spec.burst) }
    }

    #[inline]
    fn is_allowed(&self, key: &K) -> bool {
        let now = Instant::now();
        let Some(mut bucket) = self.buckets.get_mut(key) else {
            self.buckets.insert(key.clone(), (self.burst - 1.0, now));
            return true;
        };
        let (tokens, counted_at) = &mut *bucket;
        let refilled = now.saturating_duration_since(*counted_at).as_secs_f64() * self.tokens_per_s;
        *tokens = (*tokens + refilled).min(self.burst);
        *counted_at = now;
        let is_allowed = *tokens >= 1.0;
        *tokens -= if is_allowed { 1.0 } else { 0.0 };
        is_allowed
    }
}

impl<K: BenchKey> Contestant<K> for CustomBucket<K> {
    fn run(&self, keys: &[K], order: &[u32]) -> Tally {
        let mut tally = Tally::default();
        for &at in order {
            tally.note_bare(self.is_allowed(&keys[at as usize]));
        }
        tally
    }
}
