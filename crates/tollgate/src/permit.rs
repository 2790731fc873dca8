use std::fmt;
use std::time::Duration;

use tollgate_core::Settlement;

use crate::limiter::AsyncLimiter;
use crate::receipt::Receipt;
use crate::verdict::Verdict;

/// An allowed request: a guard of its charges.
///
/// Dropping it releases the concurrency permits that it holds; charges of other limits remain. [`refund`](Permit::refund)
/// returns all charges, and [`settle`](Permit::settle) replaces an estimated cost by the true one.
///
/// ```
/// use tollgate::{Limiter, Request, rule};
///
/// let limiter = Limiter::builder().rule(rule("reports").concurrency(1)).build()?;
/// let request = Request::from_peer(None);
/// let permit = limiter.permit(&request)?;
/// assert!(limiter.permit(&request).is_err());
/// drop(permit);
/// assert!(limiter.permit(&request).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping a permit releases it"]
pub struct Permit {
    limiter: AsyncLimiter,
    receipt: Option<Receipt>,
    verdict: Verdict,
}

impl Permit {
    pub(crate) fn new(limiter: AsyncLimiter, receipt: Receipt, verdict: Verdict) -> Permit {
        Permit { limiter, receipt: Some(receipt), verdict }
    }

    /// Returns the verdict that allowed the request: what remains, the response fields, and the
    /// [delay](Verdict::delay) of a queueing rule.
    #[must_use]
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// Refunds all charges: the request did not take place.
    pub fn refund(mut self) {
        if let Some(receipt) = self.receipt.take() {
            self.limiter.refund(receipt);
        }
    }

    /// Replaces the estimated cost by the true one, and releases permits.
    pub async fn settle(mut self, true_cost: u64) -> Settlement {
        match self.receipt.take() {
            Some(receipt) => self.limiter.settle(receipt, true_cost).await,
            None => Settlement { overrun: 0 },
        }
    }

    /// Settles without waiting if the counters are in this process; else returns the permit.
    #[cfg(feature = "tower")]
    pub(crate) fn settle_now(mut self, true_cost: u64) -> Option<Permit> {
        let Some(store) = self.limiter.memory_store() else { return Some(self) };
        let receipt = self.receipt.take()?;
        self.limiter.settle_in_memory(store, receipt, true_cost);
        None
    }

    /// Whether it holds concurrency permits.
    #[must_use]
    pub fn holds_permits(&self) -> bool {
        self.receipt.as_ref().is_some_and(Receipt::holds_permits)
    }

    /// Returns how long it holds permits without being renewed: until the last of their leases ends. `None` if it holds
    /// none.
    #[must_use]
    pub fn lease(&self) -> Option<Duration> {
        self.receipt.as_ref()?.longest_lease_ns().map(Duration::from_nanos)
    }

    /// Returns the interval at which [`renew`](Permit::renew) must be called; `None` if its permits have no lease.
    #[must_use]
    pub fn renew_every(&self) -> Option<Duration> {
        let lease_ns = self.receipt.as_ref()?.lease_ns()?;
        (lease_ns < tollgate_core::MAX_SPAN_NS).then(|| Duration::from_nanos(lease_ns / 3))
    }

    /// Extends the leases of its permits. Returns `false` if one has expired.
    #[must_use = "an expired permit may belong to another holder"]
    pub fn renew(&self) -> bool {
        self.receipt.as_ref().is_none_or(|receipt| self.limiter.renew(receipt))
    }

    /// Returns the receipt, for a program that stores it until the request ends.
    pub fn into_receipt(mut self) -> Receipt {
        self.receipt.take().unwrap_or_else(Receipt::nothing)
    }

    /// Returns a guard that refunds all charges on drop, for use until the delay of the verdict has passed.
    pub(crate) fn refund_on_drop(self) -> DelayedPermit {
        DelayedPermit { permit: Some(self) }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(receipt) = self.receipt.take() {
            self.limiter.release(receipt);
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("receipt", &self.receipt).field("verdict", &self.verdict).finish_non_exhaustive()
    }
}

/// A permit whose delay has not passed. Dropping it refunds all charges.
pub(crate) struct DelayedPermit {
    permit: Option<Permit>,
}

impl DelayedPermit {
    pub(crate) fn keep(mut self) -> Permit {
        self.permit.take().unwrap_or_else(|| unreachable!("only this method takes it"))
    }
}

impl Drop for DelayedPermit {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            permit.refund();
        }
    }
}
