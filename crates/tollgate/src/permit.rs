use std::fmt;
use std::time::Duration;

use tollgate_store::{Settled, Store};

use crate::limiter::Limiter;
use crate::receipt::Receipt;

/// Leave to go on. Where rules limit how many are under way at once, it holds
/// their permits, and lets go of them when it is dropped; what was charged
/// stays charged.
#[must_use = "a permit that is dropped is let go of"]
pub struct Permit<S: Store> {
    limiter: Limiter<S>,
    receipt: Option<Receipt<S>>,
}

impl<S: Store> Permit<S> {
    pub(crate) fn new(limiter: Limiter<S>, receipt: Receipt<S>) -> Permit<S> {
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
    pub fn into_receipt(mut self) -> Receipt<S> {
        self.receipt.take().unwrap_or_else(Receipt::nothing)
    }

    /// While its turn has not come, dropping it gives everything back.
    pub(crate) fn refunded_unless_kept(self) -> Waiting<S> {
        Waiting { permit: Some(self) }
    }
}

impl<S: Store> Drop for Permit<S> {
    fn drop(&mut self) {
        if let Some(receipt) = self.receipt.take() {
            self.limiter.release(receipt);
        }
    }
}

impl<S: Store> fmt::Debug for Permit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("receipt", &self.receipt).finish_non_exhaustive()
    }
}

/// A permit whose turn has not come yet.
pub(crate) struct Waiting<S: Store> {
    permit: Option<Permit<S>>,
}

impl<S: Store> Waiting<S> {
    pub(crate) fn keep(mut self) -> Permit<S> {
        self.permit.take().unwrap_or_else(|| unreachable!("it is taken once, here"))
    }
}

impl<S: Store> Drop for Waiting<S> {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            permit.refund();
        }
    }
}
