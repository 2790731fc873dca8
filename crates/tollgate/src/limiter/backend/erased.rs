//! Any store behind one type: its limits and receipts are put into boxes, and its futures too.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::{Quota, Settled};
use tollgate_store::{Board, ChangeError, KeyedCharge, LimitOptions, Notice, Outcome, Store};

/// A limit of a store whose type is not known here.
#[derive(Clone)]
pub(crate) struct ErasedLimit(Arc<dyn Any + Send + Sync>);

/// A receipt of such a store.
pub(crate) struct ErasedReceipt(Box<dyn Any + Send + Sync>);

pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A [`Store`] that can be called through a pointer.
pub(crate) trait ErasedStore: Send + Sync {
    /// The store itself.
    fn as_any(&self) -> &dyn Any;

    fn limit(
        &self,
        scope: &str,
        quota: Quota,
        options: LimitOptions,
    ) -> Result<ErasedLimit, Box<dyn Error + Send + Sync>>;

    fn caller_limit(
        &self,
        scope: &str,
        quota: Quota,
        options: LimitOptions,
    ) -> Result<ErasedLimit, Box<dyn Error + Send + Sync>>;

    fn decide<'a>(&'a self, charges: &'a [KeyedCharge<'a, ErasedLimit>]) -> BoxFuture<'a, Outcome<ErasedReceipt>>;

    fn give_back(&self, receipt: ErasedReceipt);

    fn credit(&self, limit: &ErasedLimit, key: &[u8], cost: u64);

    fn settle(&self, receipt: ErasedReceipt, true_cost: u64) -> BoxFuture<'_, Settled>;

    fn renew(&self, receipt: &ErasedReceipt) -> bool;

    fn now_ns(&self) -> u64;

    fn reset<'a>(&'a self, keys: &'a [(&'a ErasedLimit, &'a [u8])]) -> BoxFuture<'a, Result<(), ChangeError>>;

    fn agree_on(&self, fingerprint: Option<&str>);

    fn board(&self) -> Option<&Board>;

    fn post(&self, notice: Notice) -> BoxFuture<'_, Result<(), ChangeError>>;

    fn remove<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), ChangeError>>;
}

/// A limiter hands limits and receipts back to the store that made them: it has one store, and keeps it.
const OF_ANOTHER_STORE: &str = "a limit or receipt of another store";

impl ErasedLimit {
    fn of<S: Store>(&self) -> &S::Limit {
        self.0.downcast_ref().unwrap_or_else(|| unreachable!("{OF_ANOTHER_STORE}"))
    }
}

impl ErasedReceipt {
    fn of<S: Store>(&self) -> &S::Receipt {
        self.0.downcast_ref().unwrap_or_else(|| unreachable!("{OF_ANOTHER_STORE}"))
    }

    fn into_receipt_of<S: Store>(self) -> S::Receipt {
        *self.0.downcast().unwrap_or_else(|_| unreachable!("{OF_ANOTHER_STORE}"))
    }
}

impl<S: Store> ErasedStore for S {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn limit(
        &self,
        scope: &str,
        quota: Quota,
        options: LimitOptions,
    ) -> Result<ErasedLimit, Box<dyn Error + Send + Sync>> {
        Ok(ErasedLimit(Arc::new(Store::limit(self, scope, quota, options)?)))
    }

    fn caller_limit(
        &self,
        scope: &str,
        quota: Quota,
        options: LimitOptions,
    ) -> Result<ErasedLimit, Box<dyn Error + Send + Sync>> {
        Ok(ErasedLimit(Arc::new(Store::caller_limit(self, scope, quota, options)?)))
    }

    fn decide<'a>(&'a self, charges: &'a [KeyedCharge<'a, ErasedLimit>]) -> BoxFuture<'a, Outcome<ErasedReceipt>> {
        Box::pin(async move {
            let typed: SmallVec<[KeyedCharge<'_, S::Limit>; 4]> = charges
                .iter()
                .map(|charge| KeyedCharge {
                    limit: charge.limit.of::<S>(),
                    key: charge.key,
                    cost: charge.cost,
                    mode: charge.mode,
                    receipt: charge.receipt,
                })
                .collect();
            let Outcome { passed, decisions, receipts, source, asked } = Store::decide(self, &typed).await;
            let boxed = |(at, receipt)| (at, ErasedReceipt(Box::new(receipt)));
            Outcome { passed, decisions, receipts: receipts.into_iter().map(boxed).collect(), source, asked }
        })
    }

    fn give_back(&self, receipt: ErasedReceipt) {
        Store::give_back(self, receipt.into_receipt_of::<S>());
    }

    fn credit(&self, limit: &ErasedLimit, key: &[u8], cost: u64) {
        Store::credit(self, limit.of::<S>(), key, cost);
    }

    fn settle(&self, receipt: ErasedReceipt, true_cost: u64) -> BoxFuture<'_, Settled> {
        Box::pin(Store::settle(self, receipt.into_receipt_of::<S>(), true_cost))
    }

    fn renew(&self, receipt: &ErasedReceipt) -> bool {
        Store::renew(self, receipt.of::<S>())
    }

    fn now_ns(&self) -> u64 {
        Store::now_ns(self)
    }

    fn reset<'a>(&'a self, keys: &'a [(&'a ErasedLimit, &'a [u8])]) -> BoxFuture<'a, Result<(), ChangeError>> {
        Box::pin(async move {
            let typed: Vec<(&S::Limit, &[u8])> = keys.iter().map(|(limit, key)| (limit.of::<S>(), *key)).collect();
            Store::reset(self, &typed).await
        })
    }

    fn agree_on(&self, fingerprint: Option<&str>) {
        Store::agree_on(self, fingerprint);
    }

    fn board(&self) -> Option<&Board> {
        Store::board(self)
    }

    fn post(&self, notice: Notice) -> BoxFuture<'_, Result<(), ChangeError>> {
        Box::pin(Store::post(self, notice))
    }

    fn remove<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), ChangeError>> {
        Box::pin(Store::remove(self, name))
    }
}

impl fmt::Debug for ErasedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ErasedLimit")
    }
}

impl fmt::Debug for ErasedReceipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ErasedReceipt")
    }
}
