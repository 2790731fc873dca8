use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Extensions, HeaderMap};
use tokio::time::Sleep;

use crate::permit::Permit;
use crate::verdict::Verdict;

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

/// Holds a request's charges until its response has ended, and settles them then.
pub(super) struct Guard {
    permit: Option<Permit>,
    verdict: Verdict,
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

impl Guard {
    pub(super) fn new(permit: Permit, verdict: Verdict, true_cost: Option<TrueCost>) -> Guard {
        let renewal = permit.renew_every().map(|every| Renewal { every, sleep: Box::pin(tokio::time::sleep(every)) });
        Guard { permit: Some(permit), verdict, true_cost, told_cost: None, renewal }
    }

    /// Renews leases that run out. It is polled with the response.
    pub(super) fn keep(&mut self, context: &mut Context<'_>) {
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

    /// Learns the true cost from the header of the response, where the policy says so.
    pub(super) fn settle_by(&mut self, headers: &HeaderMap) {
        let Some((name, max)) = self.verdict.settled_by() else { return };
        let told = headers.get(name).and_then(|cost| cost.to_str().ok()?.trim().parse::<u64>().ok());
        self.told_cost = told.map(|cost| cost.min(max));
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let cost = self.told_cost.or_else(|| self.true_cost.as_ref()?.get());
        let (Some(permit), Some(cost)) = (self.permit.take(), cost) else { return };
        let Some(permit) = permit.settle_now(cost) else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(permit.settle(cost));
        }
    }
}
