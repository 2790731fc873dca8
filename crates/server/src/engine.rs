use std::fmt;
use std::sync::Arc;

use tollgate::{BuildError, Clock, Limit, LimitError, MemoryOptions, MemoryStore, QuotaError};

use crate::answer::{Answer, RuleAnswer};
use crate::client_address::counted_address;
use crate::front_end::FrontEnd;
use crate::metrics::Metrics;
use crate::request::Request;
use crate::starter;

/// The store behind every front end. Its clock is chosen when the service
/// starts; a call through a pointer is nothing beside reading a request.
pub(crate) type Store = MemoryStore<Arc<dyn Clock>>;

/// Decides requests. All front ends share one.
pub struct Engine {
    store: Arc<Store>,
    per_ip: Limit,
    metrics: Metrics,
}

/// Why an engine cannot start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartError {
    /// The store cannot be built.
    Store(BuildError),
    /// The rule's quota cannot be built.
    Quota(QuotaError),
    /// The rule cannot be prepared.
    Limit(LimitError),
}

impl Engine {
    /// The built-in rule over a memory store that goes by `clock`.
    pub fn starter(clock: Arc<dyn Clock>) -> Result<Engine, StartError> {
        let store = Arc::new(MemoryStore::with(MemoryOptions::default(), clock).map_err(StartError::Store)?);
        let quota = starter::quota().map_err(StartError::Quota)?;
        let per_ip = store.limit(starter::RULE, quota).map_err(StartError::Limit)?;
        let metrics = Metrics::new(&store);
        Ok(Engine { store, per_ip, metrics })
    }

    /// Decides one request, and counts it.
    #[must_use]
    pub fn decide(&self, front_end: FrontEnd, request: &Request) -> Answer {
        let clock = self.store.clock();
        let begun_ns = clock.now_ns();
        let answer = self.answer(request);
        // Monotonic in earnest, but a clock of a test may be set back.
        let taken_ns = clock.now_ns().saturating_sub(begun_ns);
        self.metrics.count(front_end, request, &answer, taken_ns);
        answer
    }

    /// The metrics in Prometheus' text format.
    #[must_use]
    pub fn metrics_text(&self) -> String {
        self.metrics.text()
    }

    fn answer(&self, request: &Request) -> Answer {
        let rule = request.ip.map(|ip| RuleAnswer {
            name: starter::RULE,
            decision: self.store.check(&self.per_ip, &counted_address(ip), request.cost),
        });
        Answer { rule }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("per_ip", &self.per_ip).finish_non_exhaustive()
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Store(error) => error.fmt(f),
            StartError::Quota(error) => error.fmt(f),
            StartError::Limit(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StartError {}
