//! Limits that callers bring along: a key, a quota and a cost, without a rule.

mod batch;
mod limit_list;
mod overflow;
mod shared;
#[cfg(test)]
mod tests;

use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tollgate::policy::model::{StoreSettings, WhenFull};
use tollgate::{CheckedPolicy, Clock, Decision, Limit, MAX_AMOUNT, MemoryStore, Quota, Rate};

use crate::service_clock::ServiceClock;
pub(crate) use batch::ThrottleBatch;
pub(crate) use limit_list::AskedQuota;
use limit_list::LimitList;
use overflow::Overflow;
pub(crate) use shared::{NotThrottled, SharedQuotas};

type Store = MemoryStore<ServiceClock>;

/// Where the keys of callers count, apart from those of every rule: no rule can
/// have this name. In metrics it stands where a rule's name does.
pub(crate) const THROTTLE_SCOPE: &str = "*throttle";

/// The store tells 4,096 quotas apart and forgets none. The policy's and these
/// take at most so many, and the rest is for the policies that are to come.
const MOST_QUOTAS: usize = 3_000;

/// Decides under any quota.
///
/// The first quotas are prepared in the store, and a check there takes no lock.
/// When there have been more than it can tell apart, those beyond count in a
/// smaller table of our own whose entries carry their quotas. A key lives in one
/// of the two: under whatever quota it comes, what it has used stays used.
pub(crate) struct Throttle {
    quotas: ArcSwap<Quotas>,
    /// Held by whoever adds a quota.
    adding: Mutex<()>,
    most_quotas: usize,
    overflow: Overflow,
}

/// The quotas that are prepared. A new one makes a new list.
struct Quotas {
    limits: LimitList,
    /// Reads in the store how much a key has used under any quota.
    meter: Option<Limit>,
    /// Whether keys may live in the overflow. Then every key has a lock.
    overflows: bool,
    /// All lists from before the overflow own it, and the one from then on: who
    /// is its only owner knows that nobody decides without the locks any more.
    era: Arc<()>,
}

impl Throttle {
    /// For the store of a policy that has so many quotas of its own.
    pub(crate) fn new(policy: &CheckedPolicy, quotas_of_policy: usize) -> Throttle {
        let refuses = matches!(&policy.store, StoreSettings::Memory(memory) if memory.when_full == WhenFull::Refuse);
        Throttle::with_most_quotas(MOST_QUOTAS.saturating_sub(quotas_of_policy), refuses)
    }

    fn with_most_quotas(most_quotas: usize, refuses_when_full: bool) -> Throttle {
        let quotas = Quotas { limits: LimitList::default(), meter: None, overflows: false, era: Arc::default() };
        Throttle {
            quotas: ArcSwap::from_pointee(quotas),
            adding: Mutex::new(()),
            most_quotas,
            overflow: Overflow::new(refuses_when_full),
        }
    }

    /// Decides whether `cost` may pass for `key`, and charges it if so. A cost of 0 only looks.
    #[inline]
    pub(crate) fn check(&self, store: &Store, key: &[u8], asked: &mut AskedQuota, cost: u64) -> Decision {
        let quotas = self.quotas.load();
        match quotas.limits.find(asked) {
            Some(limit) if !quotas.overflows => store.check(limit, key, cost),
            Some(limit) => self.check_wherever(&quotas, Some(limit), store, key, &asked.quota, cost),
            None if quotas.overflows => self.check_wherever(&quotas, None, store, key, &asked.quota, cost),
            None => {
                drop(quotas);
                self.add(store, &asked.quota);
                self.check_added(store, key, asked, cost)
            }
        }
    }

    /// How many live keys of the overflow had to make room for others.
    pub(crate) fn evictions(&self) -> u64 {
        self.overflow.evictions()
    }

    #[cold]
    fn check_added(&self, store: &Store, key: &[u8], asked: &mut AskedQuota, cost: u64) -> Decision {
        let quotas = self.quotas.load();
        match quotas.limits.find(asked) {
            Some(limit) if !quotas.overflows => store.check(limit, key, cost),
            limit => self.check_wherever(&quotas, limit, store, key, &asked.quota, cost),
        }
    }

    /// A check once there is an overflow: of a key that may live here or there.
    #[cold]
    fn check_wherever(
        &self,
        quotas: &Quotas,
        limit: Option<&Limit>,
        store: &Store,
        key: &[u8],
        quota: &Quota,
        cost: u64,
    ) -> Decision {
        quotas.await_old_lists();
        let mut place = self.overflow.lock(key);
        if let Some(limit) = limit
            && !place.is_live(store.clock().now_ns())
        {
            return store.check(limit, key, cost);
        }
        // What the key has used in the store moves here with it.
        let used = quotas.meter.as_ref().map_or(0, |meter| {
            let seen = store.peek(meter, key);
            seen.limit - seen.remaining
        });
        // Read after what was used: by an earlier time, more would have come back than did.
        let (decision, is_kept) = place.check(quota, used, store.clock().now_ns(), cost);
        if let Some(meter) = quotas.meter.as_ref().filter(|_| used > 0 && is_kept) {
            store.reset(meter, key);
        }
        decision
    }

    /// Prepares a quota, or has keys live in the overflow from now on.
    #[cold]
    fn add(&self, store: &Store, quota: &Quota) {
        let _adding = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.quotas.load_full();
        if before.limits.contains(quota) || before.overflows {
            return;
        }
        let mut limits = before.limits.clone();
        let mut meter = before.meter.clone();
        if limits.len() < self.most_quotas {
            meter = meter.or_else(|| store.limit(THROTTLE_SCOPE, metering_quota()?).ok());
            // A list without a meter has no limits either: nobody could read what was used under them.
            if meter.is_some()
                && let Ok(limit) = store.limit(THROTTLE_SCOPE, *quota)
            {
                limits.add(*quota, limit);
                let era = Arc::clone(&before.era);
                self.quotas.store(Arc::new(Quotas { limits, meter, overflows: false, era }));
                return;
            }
        }
        let era = Arc::clone(&before.era);
        self.quotas.store(Arc::new(Quotas { limits, meter, overflows: true, era }));
    }
}

impl Quotas {
    /// Waits until the lists from before the overflow are gone. Whoever still
    /// decides by one, without the locks, is done in a moment; only then may
    /// keys move. Later this is one look at a count that nobody changes.
    fn await_old_lists(&self) {
        while Arc::strong_count(&self.era) > 1 {
            std::thread::yield_now();
        }
        // What they have written is seen from here on.
        fence(Ordering::Acquire);
    }
}

/// The fastest and largest quota there is. A key's use under another is read in
/// whole tokens, rounded up, so this one's missing tokens are the other's used ones.
fn metering_quota() -> Option<Quota> {
    let fastest = Rate::new(1_000_000_000, std::time::Duration::from_secs(1)).ok()?;
    Quota::token_bucket(fastest.with_burst(MAX_AMOUNT).ok()?).ok()
}
