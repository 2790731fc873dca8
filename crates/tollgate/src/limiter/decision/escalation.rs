//! Escalation of repeated violations (`on_limit`) as limits of the store.

use std::time::Duration;

use tollgate_core::{Quota, QuotaError, Rate};
use tollgate_policy::model::OnLimit;
use tollgate_store::{LimitOptions, OnFailure, Refusals};

use crate::limiter::LimiterError;

/// The limits of a rule that warns or blocks, as indexes of the policy's limits.
#[derive(Clone, Debug)]
pub(in crate::limiter) struct Escalation {
    pub(in crate::limiter) warn_first: u64,
    /// Counts violations. Its refusal means that there are too many.
    pub(in crate::limiter) violations: Option<u32>,
    /// A bucket that samples violations: those that it refuses are not counted. `None` if all are counted.
    pub(in crate::limiter) sampling_limit: Option<u32>,
    /// A bucket of one token that refills in the duration of a block. While it is empty, the key is blocked.
    pub(in crate::limiter) block: Option<u32>,
    pub(in crate::limiter) block_ns: u64,
}

impl Escalation {
    /// Prepares its limits; `limit` prepares a limit of the store and returns its index.
    pub(in crate::limiter) fn prepare(
        rule: &str,
        on_limit: &OnLimit,
        mut limit: impl FnMut(&str, Quota, LimitOptions) -> Result<u32, LimiterError>,
    ) -> Result<Escalation, LimiterError> {
        let mut prepare = |what: &str, quota: Result<Quota, QuotaError>, options: LimitOptions| {
            let scope = format!("{rule}/{what}");
            let quota = quota.map_err(|error| LimiterError::Limit { scope: scope.clone(), error: error.into() })?;
            limit(&scope, quota, options)
        };
        let (CountedViolations { max, sampling_rate }, first) =
            (CountedViolations::under(on_limit), on_limit.warn_first);
        let violations = (max > 0).then(|| prepare("violations", violations(max, on_limit.span_ns), VIOLATIONS));
        let violations = violations.transpose()?;
        let sampling_limit = sampling_rate
            .map(|rate| prepare("violation-sampling", sampling_bucket(rate, first, on_limit.span_ns), VIOLATIONS))
            .transpose()?;
        let block = on_limit.block.map(|block| prepare("block", one_in(block.duration_ns), BLOCK)).transpose()?;
        let block_ns = on_limit.block.map_or(0, |block| block.duration_ns);
        Ok(Escalation { warn_first: first, violations, sampling_limit, block, block_ns })
    }

    /// Returns all its limits.
    pub(in crate::limiter) fn limits(&self) -> impl Iterator<Item = u32> {
        [self.violations, self.sampling_limit, self.block].into_iter().flatten()
    }
}

/// The resolution of counted violations. Violations beyond `warn_first` are counted too, so that a key that keeps
/// violating gets no further warning. Without a block they are sampled: their number has no bound, and `warn_first` for
/// each fiftieth of the span are enough. See [`CountedViolations`].
const PARTS: u64 = 50;

/// The violations of a key that are counted.
struct CountedViolations {
    /// The largest number of violations within the span.
    max: u64,
    /// If not all violations are counted: the rate of the sampling bucket, whose burst is `warn_first`.
    sampling_rate: Option<u64>,
}

impl CountedViolations {
    /// With a block, up to `max(after, warn_first)` violations are counted. Without one, a bucket of `warn_first`
    /// tokens selects them: a violation that is not counted follows `warn_first` others within a fiftieth of the span.
    /// The result equals counting every violation over a span that is shorter by at most 1/50.
    fn under(on_limit: &OnLimit) -> CountedViolations {
        let first = on_limit.warn_first;
        match on_limit.block {
            Some(block) => CountedViolations { max: block.after.max(first), sampling_rate: None },
            None if first == 0 => CountedViolations { max: 0, sampling_rate: None },
            None => {
                // A log has a maximum size, and a rate at most one unit a nanosecond.
                let sampling_rate =
                    first.saturating_mul(PARTS).min(Quota::MAX_LOG.saturating_sub(first)).min(on_limit.span_ns);
                let max = first.saturating_add(sampling_rate).min(Quota::MAX_LOG).max(first);
                CountedViolations { max, sampling_rate: Some(sampling_rate.max(1)) }
            }
        }
    }
}

/// A request that could not be counted is not a violation.
const VIOLATIONS: LimitOptions =
    LimitOptions { on_failure: OnFailure::Closed, refusals: Refusals::Counted, lease: None, regional: false };

/// A block that the store cannot report does not refuse. A known one applies until it ends.
const BLOCK: LimitOptions =
    LimitOptions { on_failure: OnFailure::Open, refusals: Refusals::Final, lease: None, regional: false };

/// Exact, because the policy states the number of violations.
fn violations(max: u64, span_ns: u64) -> Result<Quota, QuotaError> {
    Quota::sliding_window_log(Rate::new(max, Duration::from_nanos(span_ns))?)?.with_max_debt(0)
}

fn sampling_bucket(rate: u64, burst: u64, span_ns: u64) -> Result<Quota, QuotaError> {
    Quota::token_bucket(Rate::new(rate, Duration::from_nanos(span_ns))?.with_burst(burst)?)
}

fn one_in(duration_ns: u64) -> Result<Quota, QuotaError> {
    // It is never settled, and a clock that steps back must not extend a block.
    Quota::token_bucket(Rate::new(1, Duration::from_nanos(duration_ns))?.with_burst(1)?)?.with_max_debt(0)
}
