mod as_store;
mod joint;
#[cfg(all(test, loom))]
mod models;
pub(crate) mod operation;
pub(crate) mod options;
#[cfg(not(loom))]
mod snapshots;
pub(crate) mod tables;

pub use joint::DecisionSlot;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::{ChargeVerdict, Charged, CompiledQuota, Decision, Quota, Settlement, Tick};

use crate::clock::{ChosenClock, Clock, RealClock};
use crate::limit::caller_quota::CallerQuota;
use crate::limit::family::CARRIED;
use crate::limit::key::{HashSecret, Key, ScopeHasher};
use crate::limit::options::LimitOptions;
use crate::limit::{Limit, LimitError, LimitInner, LimitTable};
use crate::memory::operation::{
    CheckOp, CheckWithReceiptOp, CreditOp, ForceOp, PeekOp, RefreshAndPeekOp, RefundOp, ReserveOp, ResetOp, SettleOp,
    StateOperation,
};
use crate::memory::options::{BuildError, Capacity, MemoryOptions};
use crate::memory::tables::Tables;
use crate::store::charge::{Charge, ChargeMode, KeyHash};
use crate::store::overrides::SharedOverrides;
use crate::store::receipt::ChargeReceipt;
use crate::table::BucketKey;
use crate::table::cell::Cell;
use crate::table::full::TableFull;
use crate::wait::queues::WaitQueues;

/// A store in memory, shared by all threads and tasks of a process.
///
/// ```
/// use std::time::Duration;
///
/// use tollgate_store::{ManualClock, MemoryOptions, MemoryStore, Quota};
///
/// let clock = ManualClock::at(1_800_000_000_000_000_000);
/// let store = MemoryStore::with(MemoryOptions::default(), clock.clone())?;
/// let limit = store.limit("login", Quota::fixed_window("1/min".parse()?)?)?;
/// assert!(store.check(&limit, "alice", 1).is_allowed());
/// assert!(!store.check(&limit, "alice", 1).is_allowed());
/// clock.advance(Duration::from_secs(60));
/// assert!(store.check(&limit, "alice", 1).is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Consistency
///
/// A check is exact: no key ever exceeds its limit, across all threads. Checks of one key are decided one after the
/// other. A check of several charges ([`check_all`](MemoryStore::check_all)) charges all or none; while it is in
/// flight, another check may see a charge that is about to be undone, and be refused although it would have passed. The
/// reverse never happens.
///
/// The store never takes more memory than its capacity. An entry whose state is that of an unused key may be replaced
/// at any time; [`WhenFull`](crate::WhenFull) decides what happens when all keys are live, and this is counted.
pub struct MemoryStore {
    tables: Tables,
    clock: ChosenClock,
    pub(crate) waiting: WaitQueues,
    id: u64,
    secret: HashSecret,
    refused_full: AtomicU64,
    overrides: SharedOverrides,
}

/// Statistics of a memory store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The number of live keys. It is estimated from a sample in a table of more than 65,536 slots (one with more than
    /// about 40,000 entries), where a few keys may count as none.
    pub live_keys: usize,
    /// The bytes of the tables.
    pub bytes: usize,
    /// The number of live keys that were evicted.
    pub evictions: u64,
    /// The number of checks that were refused because there was no space for a new key.
    pub refused_full: u64,
    /// The number of live keys under callers' limits that were evicted: see [`MemoryStore::caller_limit`].
    pub caller_evictions: u64,
    /// The number of bucket quotas that are distinguished, at most 4,096. Unused ones are replaced.
    pub quotas: usize,
    /// The number of these quotas that limits use now.
    pub quotas_used: usize,
}

impl MemoryStore {
    /// Creates a store with the default options and the real clock.
    ///
    /// # Panics
    /// On an x86-64 processor from before 2006; [`MemoryStore::with`] returns an error there.
    #[must_use]
    pub fn new() -> MemoryStore {
        match MemoryStore::with(MemoryOptions::default(), RealClock::new()) {
            Ok(store) => store,
            Err(error) => panic!("{error}"),
        }
    }
}

impl Default for MemoryStore {
    fn default() -> MemoryStore {
        MemoryStore::new()
    }
}

impl MemoryStore {
    /// Creates a store with the given options and clock. The real and the manual clock are called directly, any other
    /// clock through a pointer.
    pub fn with(options: MemoryOptions, clock: impl Clock + 'static) -> Result<MemoryStore, BuildError> {
        MemoryStore::built(options, ChosenClock::new(clock), HashSecret::of_process(), false)
    }

    /// Creates an empty store.
    fn built(
        options: MemoryOptions,
        clock: ChosenClock,
        secret: HashSecret,
        has_snapshots: bool,
    ) -> Result<MemoryStore, BuildError> {
        match options.capacity {
            Capacity::Entries(0) => return Err(BuildError::NoCapacity),
            Capacity::Bytes(bytes) if bytes < 64 << 10 => return Err(BuildError::NoCapacity),
            Capacity::Entries(keys) if keys > 1 << 32 => return Err(BuildError::CapacityTooLarge),
            Capacity::Bytes(bytes) if bytes > 1 << 40 => return Err(BuildError::CapacityTooLarge),
            Capacity::Entries(_) | Capacity::Bytes(_) => {}
        }
        if !Cell::is_supported() {
            return Err(BuildError::Processor);
        }
        static STORES: AtomicU64 = AtomicU64::new(0);
        Ok(MemoryStore {
            tables: Tables::new(options, has_snapshots),
            clock,
            waiting: WaitQueues::new(),
            id: STORES.fetch_add(1, Ordering::Relaxed),
            secret,
            refused_full: AtomicU64::new(0),
            overrides: SharedOverrides::default(),
        })
    }

    /// Prepares a limit: a quota whose keys are counted under `scope`.
    ///
    /// Another quota under the same scope takes over the counts of the keys: the used amount stays used, capped at what
    /// the new quota can hold. Between algorithms of different families it is moved when a key is next charged: limit
    /// minus remaining, rounded up, as if all of it had been used at that moment. Permits are counted separately.
    ///
    /// The log or the permits of one key take at most a shard's share of the store ([`LimitError::TooLarge`]): a larger
    /// one is refused below its limit. [`Store::limit`](crate::Store::limit) rejects such a quota.
    pub fn limit(&self, scope: &str, quota: Quota) -> Result<Limit, LimitError> {
        self.policy_limit(scope, quota, LimitOptions::default())
    }

    fn policy_limit(&self, scope: &str, quota: Quota, options: LimitOptions) -> Result<Limit, LimitError> {
        let compiled = CompiledQuota::new(&quota, Tick::Nanosecond);
        let (table, tag_use) = self.tables.limit_table(&compiled, &quota, self.clock.now_ns())?;
        let family = compiled.family();
        let families = CARRIED.contains(&family).then(|| self.tables.families.note(scope, family));
        let inner = self.limit_inner(scope, quota, compiled, table);
        Ok(self.new_limit(LimitInner { options, families, _tag_use: tag_use, ..inner }))
    }

    /// Prepares a caller's limit: one whose quota a caller sends with its request. Its keys are counted separately from
    /// those of [`limit`](MemoryStore::limit), even under the same scope, in their own table: they evict no other keys,
    /// and any number of quotas may be prepared.
    ///
    /// Among these keys the least recently used one is evicted. The quota must be a token bucket without debt or a
    /// fixed window.
    pub fn caller_limit(&self, scope: &str, quota: Quota) -> Result<Limit, LimitError> {
        let compiled = CompiledQuota::new(&quota, Tick::Nanosecond);
        let table = LimitTable::Caller(CallerQuota::new(&quota)?);
        Ok(self.new_limit(self.limit_inner(scope, quota, compiled, table)))
    }

    fn limit_inner(&self, scope: &str, quota: Quota, compiled: CompiledQuota, table: LimitTable) -> LimitInner {
        LimitInner {
            table,
            store: self.id,
            key_hasher: ScopeHasher::new(scope, &self.secret),
            compiled,
            _tag_use: None,
            families: None,
            quota,
            scope: scope.into(),
            options: LimitOptions::default(),
        }
    }

    /// Creates a limit, and the table that it needs.
    fn new_limit(&self, inner: LimitInner) -> Limit {
        let limit = Limit(Arc::new(inner));
        self.tables.prepare(&limit);
        limit
    }

    /// Returns the clock of this store.
    pub fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    /// Decides whether `cost` may pass for `key`, and charges it if so. A cost of 0 is a peek.
    ///
    /// ```
    /// use tollgate_store::{MemoryStore, Quota};
    ///
    /// let store = MemoryStore::new();
    /// let limit = store.limit("per-user", Quota::token_bucket("2/h".parse()?)?)?;
    /// assert_eq!(store.check(&limit, "alice", 2).remaining, 0);
    /// let refused = store.check(&limit, "alice", 1);
    /// assert!(!refused.is_allowed() && refused.retry_after().is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If `limit` was made by another store.
    #[inline(always)]
    pub fn check<K: Key + ?Sized>(&self, limit: &Limit, key: &K, cost: u64) -> Decision {
        self.check_charge(&self.charge(limit, key, cost))
    }

    /// Returns what remains for `key`, without charging.
    pub fn peek<K: Key + ?Sized>(&self, limit: &Limit, key: &K) -> Decision {
        self.check(limit, key, 0)
    }

    /// Like [`check`](MemoryStore::check), with a receipt if the charge was allowed.
    ///
    /// ```
    /// use tollgate_store::{MemoryStore, Quota};
    ///
    /// let store = MemoryStore::new();
    /// let limit = store.limit("jobs", Quota::concurrency(1, None)?)?;
    /// let (_, receipt) = store.check_with_receipt(&limit, "alice", 1);
    /// assert!(!store.check(&limit, "alice", 1).is_allowed(), "the permit is held");
    /// store.refund(receipt.expect("the first check is allowed"));
    /// assert!(store.check(&limit, "alice", 1).is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_with_receipt<K: Key + ?Sized>(
        &self,
        limit: &Limit,
        key: &K,
        cost: u64,
    ) -> (Decision, Option<ChargeReceipt>) {
        let charge = self.charge(limit, key, cost);
        if cost == 0 {
            return (self.peek_charge(&charge, self.clock.now_ns()), None);
        }
        self.apply_with_receipt(&charge, &CheckWithReceiptOp { cost })
    }

    /// Like [`check_with_receipt`](MemoryStore::check_with_receipt), for a caller that can wait up to `max_wait_ns`: it
    /// may get a reservation, as far as the quota allows. The delay of the decision is the time to wait.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tollgate_store::{ManualClock, MemoryOptions, MemoryStore, Quota};
    ///
    /// let clock = ManualClock::at(1_800_000_000_000_000_000);
    /// let store = MemoryStore::with(MemoryOptions::default(), clock)?;
    /// let quota = Quota::token_bucket("10/s burst 1".parse()?)?.with_reservations(Duration::from_secs(1))?;
    /// let limit = store.limit("api", quota)?;
    /// let max_wait_ns = 500_000_000;
    /// assert_eq!(store.reserve(&limit, "alice", 1, max_wait_ns).0.delay(), 0);
    /// assert_eq!(store.reserve(&limit, "alice", 1, max_wait_ns).0.delay(), 100_000_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve<K: Key + ?Sized>(
        &self,
        limit: &Limit,
        key: &K,
        cost: u64,
        max_wait_ns: u64,
    ) -> (Decision, Option<ChargeReceipt>) {
        let charge = self.charge(limit, key, cost);
        if cost == 0 {
            return (self.peek_charge(&charge, self.clock.now_ns()), None);
        }
        self.apply_with_receipt(&charge, &ReserveOp { cost, max_wait: max_wait_ns })
    }

    /// Prepares a charge, to be decided together with others.
    ///
    /// # Panics
    /// If `limit` was made by another store.
    #[inline(always)]
    pub fn charge<'a, K: Key + ?Sized>(&self, limit: &'a Limit, key: &K, cost: u64) -> Charge<'a, KeyHash> {
        self.assert_own(limit);
        self.charge_unchecked(limit, key, cost)
    }

    /// Like [`charge`](MemoryStore::charge), without checking that this store made the limit. Under another store's
    /// limit it would count an unrelated key.
    #[doc(hidden)]
    #[inline(always)]
    pub fn charge_unchecked<'a, K: Key + ?Sized>(&self, limit: &'a Limit, key: &K, cost: u64) -> Charge<'a, KeyHash> {
        debug_assert!(limit.0.store == self.id);
        Charge { limit, key: KeyHash(limit.hash(key)), cost, mode: ChargeMode::Enforce, receipt: false }
    }

    #[inline(always)]
    fn assert_own(&self, limit: &Limit) {
        assert!(limit.0.store == self.id, "a limit can only be used in the store that made it");
    }

    /// Decides many charges, each separately, in order. It prefetches their entries, which is several times faster for
    /// large tables than deciding one after the other.
    pub fn check_batch(&self, charges: &[Charge<'_, KeyHash>], decisions: &mut Vec<Decision>) {
        /// The number of cache lines that a core can have in flight, with some to spare.
        const AHEAD: usize = 16;
        decisions.clear();
        decisions.reserve(charges.len());
        for charge in charges.iter().take(AHEAD) {
            self.prefetch(charge);
        }
        for (index, charge) in charges.iter().enumerate() {
            if let Some(later) = charges.get(index + AHEAD) {
                self.prefetch(later);
            }
            decisions.push(self.check_charge(charge));
        }
    }

    /// Refunds a charge, without creating quota: see `docs/state.md`. Releases a permit.
    #[allow(clippy::needless_pass_by_value, reason = "an operation that consumes the receipt can run only once")]
    pub fn refund(&self, receipt: ChargeReceipt) {
        self.assert_own(&receipt.limit);
        self.refund_charge(&receipt.limit, receipt.key.0, &receipt.charged);
    }

    /// Replaces an estimated cost by the true cost. What does not fit becomes debt; what exceeds the largest debt is
    /// returned as overrun.
    #[allow(clippy::needless_pass_by_value, reason = "an operation that consumes the receipt can run only once")]
    pub fn settle(&self, receipt: ChargeReceipt, true_cost: u64) -> Settlement {
        self.assert_own(&receipt.limit);
        let operation = SettleOp { charged: &receipt.charged, true_cost };
        let settled = self.apply(&receipt.limit, receipt.key.0, &operation);
        settled.unwrap_or(Settlement { overrun: true_cost.saturating_sub(receipt.charged.cost) })
    }

    /// Extends the lease of a permit to its full length from now. Returns `false` if the lease is lost, or if the
    /// receipt has none.
    #[must_use]
    pub fn renew(&self, receipt: &ChargeReceipt) -> bool {
        self.assert_own(&receipt.limit);
        match &receipt.limit.0.compiled {
            CompiledQuota::Concurrency(permits) => {
                self.tables.renew(permits, receipt.key.0, &self.clock, &receipt.charged)
            }
            _ => false,
        }
    }

    /// Charges as much of `cost` as fits, even if a check would refuse it, to penalise a refused request. Returns the
    /// amount that did not fit.
    pub fn penalise<K: Key + ?Sized>(&self, limit: &Limit, key: &K, cost: u64) -> u64 {
        let charge = self.charge(limit, key, cost);
        self.apply(limit, charge.key.0, &ForceOp { cost }).unwrap_or(cost)
    }

    /// Refunds `cost` of the used amount, for a caller without a receipt: never more than was used, and no
    /// reservations. Permits have holders, and are not refunded.
    pub fn credit<K: Key + ?Sized>(&self, limit: &Limit, key: &K, cost: u64) {
        let charge = self.charge(limit, key, cost);
        if !matches!(limit.0.compiled, CompiledQuota::Concurrency(_)) {
            // A key without an entry has nothing to refund, so this never needs space.
            let _ = self.apply(limit, charge.key.0, &CreditOp { cost });
        }
    }

    /// Resets a key to unused.
    pub fn reset<K: Key + ?Sized>(&self, limit: &Limit, key: &K) {
        let charge = self.charge(limit, key, 0);
        // Nothing is stored for a key without an entry, so this never needs space.
        let _ = self.apply(limit, charge.key.0, &ResetOp);
    }

    /// Returns statistics of the store. It reads a sample, and is cheap enough to call every second.
    pub fn stats(&self) -> Stats {
        let tags = self.tables.quotas.count();
        Stats {
            live_keys: self.tables.live_keys(self.clock.now_ns()),
            bytes: self.tables.bytes(),
            evictions: self.tables.evictions(),
            refused_full: self.refused_full.load(Ordering::Relaxed),
            caller_evictions: self.tables.caller_evictions(),
            quotas: tags.allocated,
            quotas_used: tags.used,
        }
    }

    /// Decides one prepared charge.
    #[inline(always)]
    pub fn check_charge(&self, charge: &Charge<'_, KeyHash>) -> Decision {
        self.check_charge_at(charge, self.clock.now_ns())
    }

    #[inline(always)]
    fn check_charge_at(&self, charge: &Charge<'_, KeyHash>, now: u64) -> Decision {
        if charge.cost > 0
            && let LimitTable::Bucket(quota) = &charge.limit.0.table
        {
            let key = BucketKey { hash: charge.key.0, quota };
            if let Some(checked) = self.tables.buckets().check_hit(key, now, charge.cost) {
                return checked.decision;
            }
        }
        self.check_any(charge.limit, charge.key.0, charge.cost)
    }

    /// Decides a charge that is not a hit in the table of buckets.
    #[inline(never)]
    fn check_any(&self, limit: &Limit, hash: u64, cost: u64) -> Decision {
        if let LimitTable::Caller(CallerQuota::Bucket { bucket, quota }) = &limit.0.table
            && cost == 1
            && let Some(decision) = self.tables.callers().check_known(hash, bucket, *quota, &self.clock)
        {
            return decision;
        }
        if cost == 0 {
            let peek = Charge { limit, key: KeyHash(hash), cost, mode: ChargeMode::Enforce, receipt: false };
            return self.peek_charge(&peek, self.clock.now_ns());
        }
        self.apply(limit, hash, &CheckOp { cost }).unwrap_or_else(|TableFull| self.unavailable(limit))
    }

    #[inline(always)]
    fn peek_charge(&self, charge: &Charge<'_, KeyHash>, now: u64) -> Decision {
        if let LimitTable::Bucket(quota) = &charge.limit.0.table {
            let key = BucketKey { hash: charge.key.0, quota };
            if let Some(decision) = self.tables.buckets().peek_hit(key, now, charge.cost) {
                return decision;
            }
        }
        self.peek_any(charge.limit, charge.key.0, charge.cost)
    }

    #[inline(never)]
    fn peek_any(&self, limit: &Limit, hash: u64, cost: u64) -> Decision {
        self.apply(limit, hash, &PeekOp { cost }).unwrap_or_else(|TableFull| self.unavailable(limit))
    }

    /// Returns the decision for a charge of more than 0 where the whole request is refused.
    fn refuse(&self, charge: &Charge<'_, KeyHash>, now: u64) -> Decision {
        let hit = match &charge.limit.0.table {
            LimitTable::Bucket(quota) => {
                self.tables.buckets().peek_hit(BucketKey { hash: charge.key.0, quota }, now, charge.cost)
            }
            _ => None,
        };
        hit.unwrap_or_else(|| {
            let refused = self.apply(charge.limit, charge.key.0, &RefreshAndPeekOp { cost: charge.cost });
            refused.unwrap_or_else(|TableFull| self.unavailable(charge.limit))
        })
    }

    /// Applies an operation that charges, and returns a receipt if it was allowed.
    fn apply_with_receipt<O>(&self, charge: &Charge<'_, KeyHash>, operation: &O) -> (Decision, Option<ChargeReceipt>)
    where
        O: StateOperation<Output = (Decision, Charged)>,
    {
        match self.apply(charge.limit, charge.key.0, operation) {
            Ok((decision, charged)) => {
                let receipt = || ChargeReceipt::in_memory(charge.limit.clone(), charge.key, charged);
                (decision, decision.is_allowed().then(receipt))
            }
            Err(TableFull) => (self.unavailable(charge.limit), None),
        }
    }

    fn refund_charge(&self, limit: &Limit, hash: u64, charged: &Charged) {
        // A key that has no entry any more has nothing to refund.
        let _ = self.apply(limit, hash, &RefundOp { charged });
    }

    pub(crate) fn apply<O: StateOperation>(
        &self,
        limit: &Limit,
        hash: u64,
        operation: &O,
    ) -> Result<O::Output, TableFull> {
        self.tables.apply(limit, hash, &self.clock, operation)
    }

    #[inline]
    fn prefetch(&self, charge: &Charge<'_, KeyHash>) {
        if let LimitTable::Bucket(_) = charge.limit.0.table {
            self.tables.buckets().prefetch(charge.key.0);
        }
    }

    /// Returns the decision for a key for which the table has no slot.
    #[cold]
    pub(crate) fn unavailable(&self, limit: &Limit) -> Decision {
        self.refused_full.fetch_add(1, Ordering::Relaxed);
        limit.decision_without_count(ChargeVerdict::Unavailable)
    }
}
