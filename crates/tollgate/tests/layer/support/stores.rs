//! Custom stores, implemented with the public API.

use std::error::Error;

use tollgate::policy::{PolicyBuilder, RuleBuilder};
use tollgate::quota::{ChargeVerdict, Decision, Settlement, Tick};
use tollgate::store::{
    BoxFuture, Capacity, Charge, ChargeReceipt, DecidedCharges, Limit, LimitOptions, Outcome, Source, Store,
};
use tollgate::{AsyncLimiter, ManualClock, MemoryOptions, MemoryStore, Quota};

use super::clock;

/// A limiter over a store that is waited for.
pub(crate) fn hesitant(rule: RuleBuilder) -> AsyncLimiter {
    hesitant_at(rule, clock())
}

/// The same by a clock that the test moves.
pub(crate) fn hesitant_at(rule: RuleBuilder, clock: ManualClock) -> AsyncLimiter {
    let policy = PolicyBuilder::default().rule(rule).build().unwrap();
    let options = MemoryOptions { capacity: Capacity::Entries(1_000), ..MemoryOptions::default() };
    AsyncLimiter::with_store(&policy, Hesitant(MemoryStore::with(options, clock).unwrap())).unwrap()
}

/// A store that is unreachable under `on_failure: closed`, optionally with a retry time.
pub(crate) struct Down {
    pub(crate) retry_after_ns: Option<u64>,
}

impl Store for Down {
    fn limit(&self, scope: &str, quota: Quota, options: LimitOptions) -> Result<Limit, Box<dyn Error + Send + Sync>> {
        Ok(Limit::new(scope, quota, options, Tick::Nanosecond, ()))
    }

    fn check_all<'a>(&'a self, charges: &'a [Charge<'a>]) -> BoxFuture<'a, Outcome> {
        let refused = |charge: &Charge<'_>| Decision {
            verdict: ChargeVerdict::Refused { retry_after: self.retry_after_ns },
            limit: charge.limit.quota().amount(),
            remaining: 0,
            next_after: 0,
            reset_after: 0,
        };
        let outcome = Outcome {
            passed: false,
            decisions: charges.iter().map(refused).collect(),
            receipts: Vec::new(),
            source: Source::Fallback,
            decided: DecidedCharges::All,
        };
        Box::pin(std::future::ready(outcome))
    }

    fn refund(&self, _: ChargeReceipt) {}

    fn settle(&self, _: ChargeReceipt, _: u64) -> BoxFuture<'_, Settlement> {
        Box::pin(std::future::ready(Settlement { overrun: 0 }))
    }

    fn renew(&self, _: &ChargeReceipt) -> bool {
        false
    }

    fn now_ns(&self) -> u64 {
        0
    }
}

/// A memory store that replies at the second poll, like a remote one.
pub(crate) struct Hesitant(MemoryStore);

impl Store for Hesitant {
    fn limit(&self, scope: &str, quota: Quota, options: LimitOptions) -> Result<Limit, Box<dyn Error + Send + Sync>> {
        Store::limit(&self.0, scope, quota, options)
    }

    fn check_all<'a>(&'a self, charges: &'a [Charge<'a>]) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.0.check_all_now(charges)
        })
    }

    fn refund(&self, receipt: ChargeReceipt) {
        self.0.refund(receipt);
    }

    fn settle(&self, receipt: ChargeReceipt, true_cost: u64) -> BoxFuture<'_, Settlement> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            Store::settle(&self.0, receipt, true_cost).await
        })
    }

    fn renew(&self, receipt: &ChargeReceipt) -> bool {
        Store::renew(&self.0, receipt)
    }

    fn now_ns(&self) -> u64 {
        Store::now_ns(&self.0)
    }
}
