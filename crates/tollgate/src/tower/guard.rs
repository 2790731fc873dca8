use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Extensions;
use tokio::time::Sleep;

use crate::permit::Permit;

/// Lets a handler say what a request truly cost. It is in the request's
/// extensions where the policy estimates costs; the layer settles the charge
/// when the response has ended. Unless it is set, the estimate stays. Of
/// several layers around a service all hear it; where a policy names a response
/// header that tells the cost, that has the last word.
#[derive(Clone, Debug)]
pub struct TrueCost(Arc<AtomicU64>);

impl TrueCost {
    /// No request costs so much.
    const UNKNOWN: u64 = u64::MAX;

    /// The one that a layer further out has put there, or a new one.
    pub(super) fn of(extensions: &mut Extensions) -> TrueCost {
        let unknown = || TrueCost(Arc::new(AtomicU64::new(TrueCost::UNKNOWN)));
        extensions.get_or_insert_with(unknown).clone()
    }

    /// Says what it cost. May be called again; the last word counts.
    pub fn set(&self, cost: u64) {
        self.0.store(cost.min(TrueCost::UNKNOWN - 1), Ordering::Relaxed);
    }

    /// Adds to what it cost so far: for a response whose parts are counted as they are sent.
    pub fn add(&self, cost: u64) {
        let more = |known: u64| {
            let known = if known == TrueCost::UNKNOWN { 0 } else { known };
            Some(known.saturating_add(cost).min(TrueCost::UNKNOWN - 1))
        };
        // The closure always has an answer.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|cost| *cost != TrueCost::UNKNOWN)
    }
}

/// What must be done when a response has ended, and kept up until then.
pub(super) trait Guard: Send {
    /// Keeps up what runs out. It is polled with the response.
    fn keep(&mut self, context: &mut Context<'_>);

    /// Learns the true cost from the response.
    fn settled_at(&mut self, cost: u64);
}

/// Holds a request's charges until its response has ended.
pub(super) struct Held {
    permit: Option<Permit>,
    /// What the handler says, if anything was estimated.
    true_cost: Option<TrueCost>,
    /// What the response says.
    told_cost: Option<u64>,
    renewal: Option<Renewal>,
}

struct Renewal {
    every: Duration,
    sleep: Pin<Box<Sleep>>,
}

impl Held {
    pub(super) fn new(permit: Permit, true_cost: Option<TrueCost>) -> Held {
        let renewal = permit.renew_every().map(|every| Renewal { every, sleep: Box::pin(tokio::time::sleep(every)) });
        Held { permit: Some(permit), true_cost, told_cost: None, renewal }
    }
}

impl Guard for Held {
    fn keep(&mut self, context: &mut Context<'_>) {
        let (Some(renewal), Some(permit)) = (&mut self.renewal, &self.permit) else { return };
        while let Poll::Ready(()) = renewal.sleep.as_mut().poll(context) {
            if !permit.renew() {
                // Somebody else has it by now; there is nothing left to keep.
                self.renewal = None;
                return;
            }
            let next = tokio::time::Instant::now() + renewal.every;
            renewal.sleep.as_mut().reset(next);
        }
    }

    fn settled_at(&mut self, cost: u64) {
        self.told_cost = Some(cost);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let cost = self.told_cost.or_else(|| self.true_cost.as_ref()?.get());
        let (Some(permit), Some(cost)) = (self.permit.take(), cost) else { return };
        let Some(permit) = permit.settle_now(cost) else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(permit.settle(cost));
        }
    }
}
