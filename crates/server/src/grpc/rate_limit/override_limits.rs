use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use tollgate::store::Limit;
use tollgate::{Quota, Rate};

use super::messages::{RateLimitOverride, RateLimitUnit};
use crate::engine::Engine;

/// Gateways take limits from their configuration, so there are few. The cache is bounded, because a caller may send
/// arbitrary ones.
const MAX_CACHED: usize = 1_024;

/// Gateway-supplied limits, prepared for the store.
#[derive(Debug, Default)]
pub(in crate::grpc) struct OverrideLimits(RwLock<HashMap<RateLimitOverride, Limit>>);

impl OverrideLimits {
    /// Returns the prepared limit; `None` if it has no unit.
    pub(in crate::grpc) fn get(&self, engine: &Engine, requested: RateLimitOverride) -> Option<Limit> {
        if let Some(cached) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&requested) {
            return Some(cached.clone());
        }
        let limit = prepare(engine, requested)?;
        let mut cached = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if cached.len() < MAX_CACHED {
            cached.insert(requested, limit.clone());
        }
        Some(limit)
    }
}

/// Prepares a fixed window of the unit, as authors of such limits expect.
fn prepare(engine: &Engine, requested: RateLimitOverride) -> Option<Limit> {
    let unit = RateLimitUnit::try_from(requested.unit).ok()?;
    let count = u64::from(requested.requests_per_unit).max(1);
    let unit_s = unit.seconds()?;
    let rate = Rate::new(count, Duration::from_secs(unit_s)).ok()?;
    // No rule's name has a colon. Limits of one unit share their counters, so that a change of the limit does not refill it.
    let scope = format!(":override/{unit_s}s");
    // Charges of such a limit are never settled.
    engine.caller_limit(&scope, Quota::fixed_window(rate).ok()?.with_max_debt(0).ok()?)
}
