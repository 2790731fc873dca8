//! The memory store behind the [`Store`] interface.

use std::error::Error;

use smallvec::{SmallVec, smallvec};
use tollgate_core::{Decision, Quota, Settlement};

use super::MemoryStore;
use crate::clock::Clock;
use crate::limit::Limit;
use crate::limit::options::LimitOptions;
use crate::store::charge::{Charge, KeyHash};
use crate::store::outcome::{DecidedCharges, Outcome, Source};
use crate::store::overrides::{ChangeError, SharedOverrides, StoredOverride};
use crate::store::receipt::ChargeReceipt;
use crate::store::{BoxFuture, Store, StoreAdmin};

impl Store for MemoryStore {
    fn limit(&self, scope: &str, quota: Quota, options: LimitOptions) -> Result<Limit, Box<dyn Error + Send + Sync>> {
        let limit = self.policy_limit(scope, quota, options)?;
        // A quota whose keys could be refused below their limit is rejected.
        self.tables.too_large(&limit.0.compiled).map_or(Ok(limit), |error| Err(error.into()))
    }

    fn caller_limit(&self, scope: &str, quota: Quota, _: LimitOptions) -> Result<Limit, Box<dyn Error + Send + Sync>> {
        Ok(MemoryStore::caller_limit(self, scope, quota)?)
    }

    fn check_all<'a>(&'a self, charges: &'a [Charge<'a>]) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.check_all_now(charges) })
    }

    fn refund(&self, receipt: ChargeReceipt) {
        self.refund(receipt);
    }

    fn credit(&self, limit: &Limit, key: &[u8], cost: u64) {
        MemoryStore::credit(self, limit, key, cost);
    }

    fn settle(&self, receipt: ChargeReceipt, true_cost: u64) -> BoxFuture<'_, Settlement> {
        Box::pin(async move { MemoryStore::settle(self, receipt, true_cost) })
    }

    fn renew(&self, receipt: &ChargeReceipt) -> bool {
        MemoryStore::renew(self, receipt)
    }

    #[inline]
    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn admin(&self) -> Option<&dyn StoreAdmin> {
        Some(self)
    }
}

impl StoreAdmin for MemoryStore {
    fn reset<'a>(&'a self, keys: &'a [(&'a Limit, &'a [u8])]) -> BoxFuture<'a, Result<(), ChangeError>> {
        Box::pin(async move {
            keys.iter().for_each(|(limit, key)| MemoryStore::reset(self, limit, *key));
            Ok(())
        })
    }

    #[inline]
    fn overrides(&self) -> &SharedOverrides {
        &self.overrides
    }

    fn set_override(&self, stored: StoredOverride) -> BoxFuture<'_, Result<(), ChangeError>> {
        Box::pin(async move { self.overrides.set(stored, self.clock.now_ns()) })
    }

    fn remove_override<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), ChangeError>> {
        Box::pin(async move {
            self.overrides.remove(name);
            Ok(())
        })
    }
}

impl MemoryStore {
    /// Like [`Store::check_all`], without a future.
    ///
    /// # Panics
    /// If a limit was made by another store.
    pub fn check_all_now(&self, charges: &[Charge<'_>]) -> Outcome {
        let hashed: SmallVec<[Charge<'_, KeyHash>; 4]> = charges
            .iter()
            .map(|charge| self.charge(charge.limit, charge.key, charge.cost).with_mode(charge.mode))
            .collect();
        let mut decisions = smallvec![Decision::UNDECIDED; charges.len()];
        let mut receipts = Vec::new();
        let passed = if charges.iter().any(|charge| charge.receipt) {
            let made = self.check_all_into_with_receipts(&hashed, &mut decisions, |index| charges[index].receipt);
            made.map(|made| receipts.extend(made)).is_some()
        } else {
            self.check_all_into(&hashed, &mut decisions)
        };
        Outcome { passed, decisions, receipts, source: Source::Exact, decided: DecidedCharges::All }
    }
}
