use std::fmt;
use std::sync::Arc;

use tollgate::policy::published::Published;
use tollgate::{CheckedPolicy, Clock, Decision, Limiter, LimiterError, MemoryStore, Quota, Request, Verdict};

use crate::front_end::FrontEnd;
use crate::metrics::Metrics;
use crate::service_clock::ServiceClock;
use crate::throttle::Throttle;

/// The store behind every front end. Its clock is chosen when the service
/// starts; a call through a pointer is nothing beside reading a request.
pub(crate) type Store = MemoryStore<ServiceClock>;

/// Decides requests. All front ends share one.
pub struct Engine {
    limiter: Limiter<Store>,
    published: Published,
    throttle: Arc<Throttle>,
    metrics: Metrics,
}

impl Engine {
    /// A policy over a memory store that goes by `clock`.
    pub fn new(policy: &CheckedPolicy, clock: Arc<dyn Clock>) -> Result<Engine, LimiterError> {
        let limiter = Limiter::in_memory(policy, ServiceClock(clock))?;
        let throttle = Arc::new(Throttle::new(policy, limiter.plan().quotas().len()));
        let metrics = Metrics::new(&limiter, &throttle);
        Ok(Engine { limiter, published: Published::of(policy), throttle, metrics })
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

    /// Charges `cost` to `key` under a bucket that the caller brings along, and
    /// counts it. Such keys share no counter with those of any rule; under
    /// another quota, what a key has used stays used. A cost of 0 only looks.
    pub fn throttle(&self, key: &[u8], quota: &Quota, cost: u64) -> Decision {
        let decision = self.throttle.check(self.limiter.store(), key, quota, cost);
        self.metrics.count_throttled(cost, &decision);
        decision
    }

    /// Notes that so many throttled charges took from `begun_ns` until now. They
    /// are timed together, because to time each would take as long as to decide it.
    pub(crate) fn note_throttled(&self, count: u64, begun_ns: u64) {
        self.metrics.time_throttled(count, self.now_ns().saturating_sub(begun_ns));
    }

    /// The time by which everything here is decided.
    pub(crate) fn now_ns(&self) -> u64 {
        self.limiter.store().clock().now_ns()
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
