use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Extensions, HeaderMap};
use tokio::time::Sleep;

use crate::permit::Permit;

/// The true cost of a request, set by its handler.
///
/// The layer inserts it into the request's extensions if the cost is an estimate: of a matched rule, or of
/// [`TollgateLayer::cost`](super::TollgateLayer::cost). Otherwise it is absent; a handler for both cases takes an
/// `Option`. The layer settles the charge when the response has ended. Without a call of `set` or `add` the estimate
/// remains. Several layers around a service share it. If the policy names a response header with the cost, that header
/// takes precedence.
#[derive(Clone, Debug)]
pub struct TrueCost(Arc<AtomicU64>);

impl TrueCost {
    /// Not a valid cost: no true cost was set.
    const UNKNOWN: u64 = u64::MAX;

    /// Returns the one that an outer layer has inserted, or inserts a new one.
    pub(super) fn of(extensions: &mut Extensions) -> TrueCost {
        let unknown = || TrueCost(Arc::new(AtomicU64::new(TrueCost::UNKNOWN)));
        extensions.get_or_insert_with(unknown).clone()
    }

    /// Sets the true cost. A later call replaces it.
    pub fn set(&self, cost: u64) {
        self.0.store(cost.min(TrueCost::UNKNOWN - 1), Ordering::Relaxed);
    }

    /// Adds to the true cost: for a response whose parts are counted as they are sent.
    pub fn add(&self, cost: u64) {
        let more = |known: u64| {
            let known = if known == TrueCost::UNKNOWN { 0 } else { known };
            Some(known.saturating_add(cost).min(TrueCost::UNKNOWN - 1))
        };
        // The closure always returns a value.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|cost| *cost != TrueCost::UNKNOWN)
    }
}

/// Holds the charges of a request until its response has ended, then settles them.
pub(super) struct Guard {
    permit: Option<Permit>,
    /// The handler's value, if the cost is an estimate.
    true_cost: Option<TrueCost>,
    /// The value of the response header that the policy names.
    header_cost: Option<u64>,
    renewal: Option<Renewal>,
}

struct Renewal {
    every: Duration,
    sleep: Pin<Box<Sleep>>,
}

impl Guard {
    pub(super) fn new(permit: Permit, true_cost: Option<TrueCost>) -> Guard {
        let renewal = permit.renew_every().map(|every| Renewal { every, sleep: Box::pin(tokio::time::sleep(every)) });
        Guard { permit: Some(permit), true_cost, header_cost: None, renewal }
    }

    /// Renews leases before they expire. It is polled with the response.
    pub(super) fn renew_leases(&mut self, context: &mut Context<'_>) {
        let (Some(renewal), Some(permit)) = (&mut self.renewal, &self.permit) else { return };
        while let Poll::Ready(()) = renewal.sleep.as_mut().poll(context) {
            if !permit.renew() {
                // The lease has expired and the permit may belong to another holder.
                self.renewal = None;
                return;
            }
            let next = tokio::time::Instant::now() + renewal.every;
            renewal.sleep.as_mut().reset(next);
        }
    }

    /// Reads the true cost from the response header that the policy names, if it names one.
    pub(super) fn read_cost(&mut self, headers: &HeaderMap) {
        let settled_by = self.permit.as_ref().and_then(|permit| permit.verdict().cost_header());
        let Some((name, max)) = settled_by else { return };
        let cost = headers.get(name).and_then(|cost| cost.to_str().ok()?.trim().parse::<u64>().ok());
        self.header_cost = cost.map(|cost| cost.min(max));
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let cost = self.header_cost.or_else(|| self.true_cost.as_ref()?.get());
        let (Some(permit), Some(cost)) = (self.permit.take(), cost) else { return };
        let Some(permit) = permit.settle_now(cost) else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(permit.settle(cost));
        }
    }
}
