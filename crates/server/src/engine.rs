use std::fmt;
use std::sync::Arc;

use tollgate::policy::published::Published;
use tollgate::{
    Asked, CheckedPolicy, Clock, Limit, LimitOptions, Limiter, LimiterError, MemoryStore, Quota, Request, Together,
    Verdict,
};

use crate::front_end::FrontEnd;
use crate::metrics::Metrics;
use crate::service_clock::ServiceClock;

/// The store behind every front end. Its clock is chosen when the service
/// starts; a call through a pointer is nothing beside reading a request.
pub(crate) type Store = MemoryStore<ServiceClock>;

/// Decides requests. All front ends share one.
pub struct Engine {
    limiter: Limiter<Store>,
    published: Published,
    metrics: Metrics,
}

impl Engine {
    /// A policy over a memory store that goes by `clock`.
    pub fn new(policy: &CheckedPolicy, clock: Arc<dyn Clock>) -> Result<Engine, LimiterError> {
        let limiter = Limiter::in_memory(policy, ServiceClock(clock))?;
        let metrics = Metrics::new(&limiter);
        Ok(Engine { limiter, published: Published::of(policy), metrics })
    }

    /// Decides one request, and counts it.
    pub async fn decide(&self, front_end: FrontEnd, request: &Request<'_>) -> Verdict {
        let clock = self.limiter.store().clock();
        let begun_ns = clock.now_ns();
        let verdict = self.limiter.decide(request).await;
        // Monotonic in earnest, but a clock of a test may be set back.
        let taken_ns = clock.now_ns().saturating_sub(begun_ns);
        self.metrics.count(front_end, request, &verdict, taken_ns);
        verdict
    }

    /// Decides several requests together, all or none, and counts them as one.
    pub async fn decide_together(&self, front_end: FrontEnd, asked: &[Asked<'_, Limit>]) -> Together {
        let clock = self.limiter.store().clock();
        let begun_ns = clock.now_ns();
        let together = self.limiter.decide_together(asked).await;
        let taken_ns = clock.now_ns().saturating_sub(begun_ns);
        // What takes nothing is a peek only if none of them takes anything.
        if let Some(largest) = asked.iter().max_by_key(|one| one.request.cost) {
            self.metrics.count(front_end, &largest.request, &together.overall, taken_ns);
        }
        together
    }

    /// Prepares a limit that is no rule's, for a caller who brings one. Its scope must be no rule's either.
    pub(crate) fn limit(&self, scope: &str, quota: Quota) -> Option<Limit> {
        tollgate::Store::limit(self.limiter.store(), scope, quota, LimitOptions::default()).ok()
    }

    /// The limits as clients may know them.
    #[must_use]
    pub fn published(&self) -> &Published {
        &self.published
    }

    /// The metrics in Prometheus' text format.
    #[must_use]
    pub fn metrics_text(&self) -> String {
        self.metrics.text()
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("limiter", &self.limiter).finish_non_exhaustive()
    }
}
