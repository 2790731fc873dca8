//! The memory store behind the interface that all stores share.

use std::error::Error;

use smallvec::{SmallVec, smallvec};
use tollgate_core::{Quota, Settled};

use super::MemoryStore;
use super::joint::UNANSWERED;
use crate::board::{Board, ChangeError, Notice};
use crate::charge::Charge;
use crate::clock::Clock;
use crate::limit::Limit;
use crate::receipt::Receipt;
use crate::store::{Asked, KeyedCharge, LimitOptions, Outcome, Source, Store};

impl Store for MemoryStore {
    type Limit = Limit;
    type Receipt = Receipt;

    fn limit(&self, scope: &str, quota: Quota, _: LimitOptions) -> Result<Limit, Box<dyn Error + Send + Sync>> {
        let limit = MemoryStore::limit(self, scope, quota)?;
        // What would be refused before its limit is not promised.
        self.tables.too_large(&limit.0.rule).map_or(Ok(limit), |error| Err(error.into()))
    }

    fn caller_limit(&self, scope: &str, quota: Quota, _: LimitOptions) -> Result<Limit, Box<dyn Error + Send + Sync>> {
        Ok(MemoryStore::caller_limit(self, scope, quota)?)
    }

    async fn decide(&self, charges: &[KeyedCharge<'_, Limit>]) -> Outcome<Receipt> {
        self.decide_as(charges, |limit| limit, |receipt| receipt)
    }

    fn give_back(&self, receipt: Receipt) {
        self.refund(receipt);
    }

    fn credit(&self, limit: &Limit, key: &[u8], cost: u64) {
        MemoryStore::credit(self, limit, key, cost);
    }

    async fn settle(&self, receipt: Receipt, true_cost: u64) -> Settled {
        MemoryStore::settle(self, receipt, true_cost)
    }

    fn renew(&self, receipt: &Receipt) -> bool {
        MemoryStore::renew(self, receipt)
    }

    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    async fn reset(&self, keys: &[(&Limit, &[u8])]) -> Result<(), ChangeError> {
        keys.iter().for_each(|(limit, key)| MemoryStore::reset(self, limit, *key));
        Ok(())
    }

    #[inline]
    fn board(&self) -> Option<&Board> {
        Some(&self.board)
    }

    async fn post(&self, notice: Notice) -> Result<(), ChangeError> {
        self.board.post(notice, self.clock.now_ns())
    }

    async fn remove(&self, name: &str) -> Result<(), ChangeError> {
        self.board.remove(name);
        Ok(())
    }
}

impl MemoryStore {
    /// Like [`Store::decide`], for a store that wraps this one: its limits have
    /// one of ours in them, and its receipts are made of ours.
    #[inline]
    pub fn decide_as<L, R>(
        &self,
        charges: &[KeyedCharge<'_, L>],
        limit: impl Fn(&L) -> &Limit,
        wrap: impl Fn(Receipt) -> R,
    ) -> Outcome<R> {
        let prepared: SmallVec<[Charge<'_>; 4]> = charges
            .iter()
            .map(|asked| self.charge(limit(asked.limit), asked.key, asked.cost).with_mode(asked.mode))
            .collect();
        let mut decisions = smallvec![UNANSWERED; charges.len()];
        let mut receipts = Vec::new();
        let passed = if charges.iter().any(|asked| asked.receipt) {
            let made = self.decide_charges_with_receipts(&prepared, &mut decisions, |at| charges[at].receipt);
            made.map(|made| receipts.extend(made.into_iter().map(|(at, receipt)| (at, wrap(receipt))))).is_some()
        } else {
            self.decide_charges(&prepared, &mut decisions)
        };
        Outcome { passed, decisions, receipts, source: Source::Exact, asked: Asked::All }
    }
}
