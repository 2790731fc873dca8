use std::fmt;
use std::time::Duration;

use tollgate_core::Settled;

use crate::limiter::AsyncLimiter;
use crate::receipt::Receipt;

/// Leave to go on. Where rules limit how many are under way at once, it holds
/// their permits, and lets go of them when it is dropped; what was charged
/// stays charged.
#[must_use = "a permit that is dropped is let go of"]
pub struct Permit {
    limiter: AsyncLimiter,
    receipt: Option<Receipt>,
}

impl Permit {
    pub(crate) fn new(limiter: AsyncLimiter, receipt: Receipt) -> Permit {
        Permit { limiter, receipt: Some(receipt) }
    }

    /// Gives back everything: the request did not happen after all.
    pub fn refund(mut self) {
        if let Some(receipt) = self.receipt.take() {
            self.limiter.refund(receipt);
        }
    }

    /// Replaces the estimated cost by the true one, and lets go.
    pub async fn settle(mut self, true_cost: u64) -> Settled {
        match self.receipt.take() {
            Some(receipt) => self.limiter.settle_by(receipt, true_cost).await,
            None => Settled { overrun: 0 },
        }
    }

    /// Settles at once if the store is in this process; else the permit comes back, to be settled later.
    #[cfg(feature = "tower")]
    pub(crate) fn settle_now(mut self, true_cost: u64) -> Option<Permit> {
        let Some(store) = self.limiter.memory_store() else { return Some(self) };
        let receipt = self.receipt.take()?;
        self.limiter.settle_in_memory(store, receipt, true_cost);
        None
    }

    /// Whether it holds permits, so that others wait for it to be dropped.
    #[must_use]
    pub fn holds_permits(&self) -> bool {
        self.receipt.as_ref().is_some_and(Receipt::holds_permits)
    }

    /// How long it holds permits at most without being renewed: until the last
    /// of their leases has ended. `None` if it holds none.
    #[must_use]
    pub fn lease(&self) -> Option<Duration> {
        self.receipt.as_ref()?.longest_lease_ns().map(Duration::from_nanos)
    }

    /// How often it must be renewed, where the permits it holds are leased.
    #[must_use]
    pub fn renew_every(&self) -> Option<Duration> {
        let lease_ns = self.receipt.as_ref()?.lease_ns()?;
        (lease_ns < tollgate_core::MAX_SPAN_NS).then(|| Duration::from_nanos(lease_ns / 3))
    }

    /// Extends the leases of its permits. `false` if one was lost.
    #[must_use = "a permit that was lost is somebody else's by now"]
    pub fn renew(&self) -> bool {
        self.receipt.as_ref().is_none_or(|receipt| self.limiter.renew(receipt))
    }

    /// The receipt, for somebody who keeps it where a guard cannot go.
    pub fn into_receipt(mut self) -> Receipt {
        self.receipt.take().unwrap_or_else(Receipt::nothing)
    }

    /// While its turn has not come, dropping it gives everything back.
    pub(crate) fn refunded_unless_kept(self) -> Waiting {
        Waiting { permit: Some(self) }
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
        f.debug_struct("Permit").field("receipt", &self.receipt).finish_non_exhaustive()
    }
}

/// A permit whose turn has not come yet.
pub(crate) struct Waiting {
    permit: Option<Permit>,
}

impl Waiting {
    pub(crate) fn keep(mut self) -> Permit {
        self.permit.take().unwrap_or_else(|| unreachable!("it is taken once, here"))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            permit.refund();
        }
    }
}
