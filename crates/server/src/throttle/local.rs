//! Limits that callers bring along, where the counters are in this process.

use tollgate::{ChargeVerdict, Decision, Limit, MemoryStore, Quota};

use super::THROTTLE_SCOPE;

/// A quota that a caller brings along, ready for the store once it was asked
/// about: a caller nearly always comes back with the same.
#[derive(Clone, Debug)]
pub(crate) struct AskedQuota {
    quota: Quota,
    limit: Option<Limit>,
}

impl AskedQuota {
    pub(crate) fn new(quota: Quota) -> AskedQuota {
        AskedQuota { quota, limit: None }
    }

    pub(crate) fn quota(&self) -> &Quota {
        &self.quota
    }
}

/// Decides under any quota. An entry carries the quota that wrote it: under
/// whatever quota a key comes, what it has used stays used, and no caller takes
/// anything from the policy, neither room for its keys nor for its quotas.
pub(crate) struct LocalThrottle<'a> {
    store: &'a MemoryStore,
}

impl<'a> LocalThrottle<'a> {
    pub(crate) fn new(store: &'a MemoryStore) -> LocalThrottle<'a> {
        LocalThrottle { store }
    }

    /// Decides whether `cost` may pass for `key`, and charges it if so. A cost of 0 only looks.
    #[inline]
    pub(crate) fn check(&self, key: &[u8], asked: &mut AskedQuota, cost: u64) -> Decision {
        if asked.limit.is_none() {
            asked.limit = self.store.caller_limit(THROTTLE_SCOPE, asked.quota).ok();
        }
        match &asked.limit {
            Some(limit) => self.store.check(limit, key, cost),
            None => no_room(&asked.quota),
        }
    }
}

fn no_room(quota: &Quota) -> Decision {
    Decision { verdict: ChargeVerdict::NoRoom, limit: quota.burst(), remaining: 0, next_after: 0, reset_after: 0 }
}
