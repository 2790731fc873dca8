use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use tollgate::{Limit, Quota, Rate};

use super::messages::{RateLimitOverride, Unit};
use crate::engine::Engine;

/// Gateways take their limits from their own configuration, so there are few.
/// Of a caller who makes them up no more than so many are remembered.
const MAX_REMEMBERED: usize = 1_024;

/// The limits that gateways bring along, made ready for the store.
#[derive(Debug, Default)]
pub(in crate::grpc) struct OverrideLimits(RwLock<HashMap<RateLimitOverride, Limit>>);

impl OverrideLimits {
    /// The limit that is meant; `None` if it has no unit.
    pub(in crate::grpc) fn get(&self, engine: &Engine, asked: RateLimitOverride) -> Option<Limit> {
        if let Some(known) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&asked) {
            return Some(known.clone());
        }
        let limit = prepare(engine, asked)?;
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() < MAX_REMEMBERED {
            known.insert(asked, limit.clone());
        }
        Some(limit)
    }
}

/// So many in each unit of the clock, as whoever writes such a limit expects.
fn prepare(engine: &Engine, asked: RateLimitOverride) -> Option<Limit> {
    let unit = Unit::try_from(asked.unit).ok()?;
    let count = u64::from(asked.requests_per_unit).max(1);
    let unit_s = unit.seconds()?;
    let rate = Rate::new(count, Duration::from_secs(unit_s)).ok()?;
    // No rule's name has a colon. Limits of one unit share their counters, so that a change of the limit is no refill.
    let scope = format!(":override/{unit_s}s");
    // Nothing of it is ever settled.
    engine.caller_limit(&scope, Quota::fixed_window(rate).ok()?.with_max_debt(0).ok()?)
}
