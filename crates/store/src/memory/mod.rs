mod as_store;
mod joint;
#[cfg(all(test, loom))]
mod models;
pub(crate) mod operation;
pub(crate) mod options;
#[cfg(not(loom))]
mod snapshots;
pub(crate) mod tables;

pub use joint::DecisionPlace;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::{Charged, CompiledQuota, Decision, Quota, Settled, Tick, Verdict};

use crate::clock::{ChosenClock, Clock, RealClock};
use crate::limit::caller_rule::CallerRule;
use crate::limit::family::CARRIED;
use crate::limit::key::{HashSecret, Key, ScopeHasher};
use crate::limit::options::LimitOptions;
use crate::limit::{Limit, LimitError, Prepared, Rule};
use crate::memory::operation::{
    ChargeNoted, Check, Credit, Force, GiveBack, Look, Operation, Refuse, Reserve, Reset, Settle,
};
use crate::memory::options::{BuildError, Capacity, MemoryOptions};
use crate::memory::tables::Tables;
use crate::store::charge::{Charge, KeyHash, Mode};
use crate::store::overrides::SharedOverrides;
use crate::store::receipt::Receipt;
use crate::table::Place;
use crate::table::cell::Cell;
use crate::table::full::Full;
use crate::wait::lists::WaitLists;

/// State in memory, shared by all threads and tasks of a process.
///
/// # Consistency
///
/// A check is exact: among all threads, no key is ever over its limit. Checks
/// of one key are decided one after the other. A check of several charges
/// ([`check_all`](MemoryStore::check_all)) charges all or none; while it is
/// under way, another may meet a charge that is about to be taken back and be
/// refused although it would have passed. The reverse never happens.
///
/// The store never takes more memory than its capacity. Keys that are as if
/// untouched make room for free; what happens when all are live is
/// [`WhenFull`](crate::WhenFull), and is counted.
pub struct MemoryStore {
    tables: Tables,
    clock: ChosenClock,
    pub(crate) waiting: WaitLists,
    id: u64,
    secret: HashSecret,
    refused_full: AtomicU64,
    overrides: SharedOverrides,
}

/// What a store holds and had to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// About how many keys are live.
    pub live_keys: usize,
    /// Bytes of its tables.
    pub bytes: usize,
    /// Live keys that had to make room for others.
    pub evictions: u64,
    /// Checks refused because there was no room for a new key.
    pub refused_full: u64,
    /// Live keys of callers that had to make room for others of them: see [`MemoryStore::caller_limit`].
    pub caller_evictions: u64,
    /// Bucket quotas that are told apart, of 4,096 at most. Those that nothing uses make room for others.
    pub quotas: usize,
    /// How many of them limits use now.
    pub quotas_used: usize,
}

impl MemoryStore {
    /// A store with the default options and the real clock.
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
    /// A store with options and a clock of one's own. The real and the manual
    /// clock are called directly, any other through a pointer.
    pub fn with(options: MemoryOptions, clock: impl Clock + 'static) -> Result<MemoryStore, BuildError> {
        MemoryStore::built(options, ChosenClock::new(clock), HashSecret::of_process(), false)
    }

    /// An empty store.
    fn built(
        options: MemoryOptions,
        clock: ChosenClock,
        secret: HashSecret,
        can_be_walked: bool,
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
            tables: Tables::new(options, can_be_walked),
            clock,
            waiting: WaitLists::new(),
            id: STORES.fetch_add(1, Ordering::Relaxed),
            secret,
            refused_full: AtomicU64::new(0),
            overrides: SharedOverrides::default(),
        })
    }

    /// Prepares a quota for checks of keys that are counted under `scope`.
    ///
    /// Another quota under the same scope takes over the keys' counts: what was
    /// used stays used, clamped to what the new quota can hold. Between
    /// algorithms of different families it is moved when a key is next charged:
    /// limit minus remaining, rounded up, as if it had all been used at that
    /// moment. Permits are counted apart.
    ///
    /// One key's log, or its permits, take at most a shard's share of the store ([`LimitError::TooLarge`]): a larger
    /// one is refused before its limit. [`Store::limit`](crate::Store::limit) does not prepare such a quota.
    pub fn limit(&self, scope: &str, quota: Quota) -> Result<Limit, LimitError> {
        self.policy_limit(scope, quota, LimitOptions::default())
    }

    fn policy_limit(&self, scope: &str, quota: Quota, options: LimitOptions) -> Result<Limit, LimitError> {
        let compiled = CompiledQuota::new(&quota, Tick::Nanosecond);
        let (rule, tag_use) = self.tables.rule(&compiled, &quota, self.clock.now_ns())?;
        let family = compiled.family();
        let families = CARRIED.contains(&family).then(|| self.tables.families.note(scope, family));
        let prepared = self.prepared(scope, quota, compiled, rule);
        Ok(self.finished(Prepared { options, families, _tag_use: tag_use, ..prepared }))
    }

    /// Prepares a quota that a caller chose. Its keys are counted apart from
    /// those of [`limit`](MemoryStore::limit), also under the same scope, in a
    /// table of their own: however many callers bring, no other key makes room
    /// for them, and any number of quotas may be prepared.
    ///
    /// Among these keys the one that was asked about longest ago makes room.
    /// Token buckets without debts and fixed windows can be had.
    pub fn caller_limit(&self, scope: &str, quota: Quota) -> Result<Limit, LimitError> {
        let compiled = CompiledQuota::new(&quota, Tick::Nanosecond);
        let rule = Rule::Caller(CallerRule::new(&quota)?);
        Ok(self.finished(self.prepared(scope, quota, compiled, rule)))
    }

    fn prepared(&self, scope: &str, quota: Quota, compiled: CompiledQuota, rule: Rule) -> Prepared {
        Prepared {
            rule,
            store: self.id,
            keys: ScopeHasher::new(scope, &self.secret),
            compiled,
            _tag_use: None,
            families: None,
            quota,
            scope: scope.into(),
            options: LimitOptions::default(),
        }
    }

    fn finished(&self, prepared: Prepared) -> Limit {
        let limit = Limit(Arc::new(prepared));
        self.tables.prepare(&limit);
        limit
    }

    /// The clock of this store.
    pub fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    /// Decides whether `cost` may pass for `key`, and charges it if so. A cost of 0 is a peek.
    ///
    /// # Panics
    /// If `limit` was made by another store.
    #[inline(always)]
    pub fn check<K: Key + ?Sized>(&self, limit: &Limit, key: &K, cost: u64) -> Decision {
        self.check_charge(&self.charge(limit, key, cost))
    }

    /// What remains for `key`, charging nothing.
    pub fn peek<K: Key + ?Sized>(&self, limit: &Limit, key: &K) -> Decision {
        self.check(limit, key, 0)
    }

    /// Like [`check`](MemoryStore::check), with a receipt for an allowed charge.
    pub fn check_with_receipt<K: Key + ?Sized>(
        &self,
        limit: &Limit,
        key: &K,
        cost: u64,
    ) -> (Decision, Option<Receipt>) {
        let charge = self.charge(limit, key, cost);
        if cost == 0 {
            return (self.look(&charge, self.clock.now_ns()), None);
        }
        self.noted(&charge, &ChargeNoted { cost })
    }

    /// Like [`check_with_receipt`](MemoryStore::check_with_receipt), for a
    /// caller that would wait up to `max_wait_ns`: it may be promised a place
    /// ahead of time, as far as the quota lets it. The decision says how long
    /// to wait.
    pub fn reserve<K: Key + ?Sized>(
        &self,
        limit: &Limit,
        key: &K,
        cost: u64,
        max_wait_ns: u64,
    ) -> (Decision, Option<Receipt>) {
        let charge = self.charge(limit, key, cost);
        if cost == 0 {
            return (self.look(&charge, self.clock.now_ns()), None);
        }
        self.noted(&charge, &Reserve { cost, patience: max_wait_ns })
    }

    /// Prepares a charge, to be made together with others.
    ///
    /// # Panics
    /// If `limit` was made by another store.
    #[inline(always)]
    pub fn charge<'a, K: Key + ?Sized>(&self, limit: &'a Limit, key: &K, cost: u64) -> Charge<'a, KeyHash> {
        self.assert_own(limit);
        self.charge_own(limit, key, cost)
    }

    /// The same for a limit that is known to be of this store. Under another store's limit it would count an unrelated key.
    #[doc(hidden)]
    #[inline(always)]
    pub fn charge_own<'a, K: Key + ?Sized>(&self, limit: &'a Limit, key: &K, cost: u64) -> Charge<'a, KeyHash> {
        debug_assert!(limit.0.store == self.id);
        Charge { limit, key: KeyHash(limit.hash(key)), cost, mode: Mode::Enforce, receipt: false }
    }

    #[inline(always)]
    fn assert_own(&self, limit: &Limit) {
        assert!(limit.0.store == self.id, "a limit can only be used in the store that made it");
    }

    /// Decides many charges, each on its own, in order. Fetches what they need
    /// from memory at the same time, which for large tables is several times
    /// faster than one after the other.
    pub fn check_batch(&self, charges: &[Charge<'_, KeyHash>], decisions: &mut Vec<Decision>) {
        /// As many lines as a core can have under way, with some to spare.
        const AHEAD: usize = 16;
        decisions.clear();
        decisions.reserve(charges.len());
        for charge in charges.iter().take(AHEAD) {
            self.prefetch(charge);
        }
        for (at, charge) in charges.iter().enumerate() {
            if let Some(later) = charges.get(at + AHEAD) {
                self.prefetch(later);
            }
            decisions.push(self.check_charge(charge));
        }
    }

    /// Gives a charge back, as far as that mints nothing: see `docs/state.md`.
    /// Releases a permit.
    #[allow(clippy::needless_pass_by_value, reason = "what takes the receipt can be done once")]
    pub fn refund(&self, receipt: Receipt) {
        self.assert_own(&receipt.limit);
        self.give_back(&receipt.limit, receipt.key.0, &receipt.charged);
    }

    /// Replaces an estimated cost by the true one. What does not fit is owed; what cannot be owed is returned as overrun.
    #[allow(clippy::needless_pass_by_value, reason = "what takes the receipt can be done once")]
    pub fn settle(&self, receipt: Receipt, true_cost: u64) -> Settled {
        self.assert_own(&receipt.limit);
        let operation = Settle { charged: &receipt.charged, true_cost };
        let settled = self.apply(&receipt.limit, receipt.key.0, &operation);
        settled.unwrap_or(Settled { overrun: true_cost.saturating_sub(receipt.charged.cost) })
    }

    /// Extends the lease of a permit to its full length from now. `false` if it was lost, or is none.
    #[must_use]
    pub fn renew(&self, receipt: &Receipt) -> bool {
        self.assert_own(&receipt.limit);
        match &receipt.limit.0.compiled {
            CompiledQuota::Concurrency(permits) => {
                self.tables.renew(permits, receipt.key.0, &self.clock, &receipt.charged)
            }
            _ => false,
        }
    }

    /// Charges as much of `cost` as there is, whatever a check would say: to
    /// make a refused request pay. Returns what was not there.
    pub fn penalise<K: Key + ?Sized>(&self, limit: &Limit, key: &K, cost: u64) -> u64 {
        let charge = self.charge(limit, key, cost);
        self.apply(limit, charge.key.0, &Force { cost }).unwrap_or(cost)
    }

    /// Gives back so much of what was used, for a caller who has no receipt:
    /// never more than that, and no place that was promised. Permits have
    /// holders, and are not given back so.
    pub fn credit<K: Key + ?Sized>(&self, limit: &Limit, key: &K, cost: u64) {
        let charge = self.charge(limit, key, cost);
        if !matches!(limit.0.compiled, CompiledQuota::Concurrency(_)) {
            // For a key never seen there is nothing to give back, so there is always room for that.
            let _ = self.apply(limit, charge.key.0, &Credit { cost });
        }
    }

    /// Makes a key as if untouched.
    pub fn reset<K: Key + ?Sized>(&self, limit: &Limit, key: &K) {
        let charge = self.charge(limit, key, 0);
        // Nothing is stored for a key never seen, so there is always room for that.
        let _ = self.apply(limit, charge.key.0, &Reset);
    }

    /// What the store holds. Reads a sample of it: cheap enough to ask every second.
    pub fn stats(&self) -> Stats {
        let tags = self.tables.quotas.count();
        Stats {
            live_keys: self.tables.live_keys(self.clock.now_ns()),
            bytes: self.tables.bytes(),
            evictions: self.tables.evictions(),
            refused_full: self.refused_full.load(Ordering::Relaxed),
            caller_evictions: self.tables.caller_evictions(),
            quotas: tags.given,
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
            && let Rule::Bucket(rule) = &charge.limit.0.rule
        {
            let place = Place { hash: charge.key.0, rule };
            if let Some(checked) = self.tables.buckets().check_common(place, now, charge.cost) {
                return checked.decision;
            }
        }
        self.check_any(charge.limit, charge.key.0, charge.cost)
    }

    /// Every case that is not a known key's in its usual place.
    #[inline(never)]
    fn check_any(&self, limit: &Limit, hash: u64, cost: u64) -> Decision {
        if let Rule::Caller(CallerRule::Bucket { bucket, quota }) = &limit.0.rule
            && cost == 1
            && let Some(decision) = self.tables.callers().check_known(hash, bucket, *quota, &self.clock)
        {
            return decision;
        }
        if cost == 0 {
            let peek = Charge { limit, key: KeyHash(hash), cost, mode: Mode::Enforce, receipt: false };
            return self.look(&peek, self.clock.now_ns());
        }
        self.apply(limit, hash, &Check { cost }).unwrap_or_else(|Full| self.no_room(limit))
    }

    #[inline(always)]
    fn look(&self, charge: &Charge<'_, KeyHash>, now: u64) -> Decision {
        if let Rule::Bucket(rule) = &charge.limit.0.rule {
            let place = Place { hash: charge.key.0, rule };
            if let Some(decision) = self.tables.buckets().look_common(place, now, charge.cost) {
                return decision;
            }
        }
        self.look_any(charge.limit, charge.key.0, charge.cost)
    }

    #[inline(never)]
    fn look_any(&self, limit: &Limit, hash: u64, cost: u64) -> Decision {
        self.apply(limit, hash, &Look { cost }).unwrap_or_else(|Full| self.no_room(limit))
    }

    /// What is said of a charge of more than 0 where the whole is refused.
    fn refuse(&self, charge: &Charge<'_, KeyHash>, now: u64) -> Decision {
        let common = match &charge.limit.0.rule {
            Rule::Bucket(rule) => {
                self.tables.buckets().look_common(Place { hash: charge.key.0, rule }, now, charge.cost)
            }
            _ => None,
        };
        common.unwrap_or_else(|| {
            let refused = self.apply(charge.limit, charge.key.0, &Refuse { cost: charge.cost });
            refused.unwrap_or_else(|Full| self.no_room(charge.limit))
        })
    }

    fn noted<O>(&self, charge: &Charge<'_, KeyHash>, operation: &O) -> (Decision, Option<Receipt>)
    where
        O: Operation<Output = (Decision, Charged)>,
    {
        match self.apply(charge.limit, charge.key.0, operation) {
            Ok((decision, charged)) => {
                let receipt = || Receipt::in_memory(charge.limit.clone(), charge.key, charged);
                (decision, decision.is_allowed().then(receipt))
            }
            Err(Full) => (self.no_room(charge.limit), None),
        }
    }

    fn give_back(&self, limit: &Limit, hash: u64, charged: &Charged) {
        // A key that has no entry any more has nothing to be given back to.
        let _ = self.apply(limit, hash, &GiveBack { charged });
    }

    pub(crate) fn apply<O: Operation>(&self, limit: &Limit, hash: u64, operation: &O) -> Result<O::Output, Full> {
        self.tables.apply(limit, hash, &self.clock, operation)
    }

    #[inline]
    fn prefetch(&self, charge: &Charge<'_, KeyHash>) {
        if let Rule::Bucket(_) = charge.limit.0.rule {
            self.tables.buckets().prefetch(charge.key.0);
        }
    }

    /// The answer for a key that finds no room.
    #[cold]
    pub(crate) fn no_room(&self, limit: &Limit) -> Decision {
        self.refused_full.fetch_add(1, Ordering::Relaxed);
        limit.uncounted(Verdict::NoRoom)
    }
}
