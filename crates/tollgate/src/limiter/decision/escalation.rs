//! What a rule does with clients that go on beyond its limit, as limits of the store: see [`Escalation`].

use std::time::Duration;

use tollgate_core::{Quota, QuotaError, Rate};
use tollgate_policy::model::OnLimit;
use tollgate_store::{LimitOptions, OnFailure, Refusals};

use crate::limiter::LimiterError;

/// The limits behind a rule that warns or blocks, by their positions among the limits of the policy.
#[derive(Clone, Debug)]
pub(in crate::limiter) struct Escalation {
    pub(in crate::limiter) warn_first: u64,
    /// Counts violations; what it refuses is too many of them.
    pub(in crate::limiter) violations: Option<u32>,
    /// Says which violations are remembered, where it is not all of them.
    pub(in crate::limiter) pace: Option<u32>,
    /// A bucket of one token that takes as long to refill as a block lasts: empty, it blocks.
    pub(in crate::limiter) block: Option<u32>,
    pub(in crate::limiter) block_ns: u64,
}

impl Escalation {
    /// `limit` prepares a limit of the store and returns its position.
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
        let (Remembered { most, pace }, first) = (Remembered::under(on_limit), on_limit.warn_first);
        let violations = (most > 0).then(|| prepare("violations", violations(most, on_limit.span_ns), VIOLATIONS));
        let violations = violations.transpose()?;
        let pace = pace.map(|pace| prepare("violation-pace", paced(pace, first, on_limit.span_ns), VIOLATIONS));
        let pace = pace.transpose()?;
        let block = on_limit.block.map(|block| prepare("block", one_in(block.duration_ns), BLOCK)).transpose()?;
        let block_ns = on_limit.block.map_or(0, |block| block.duration_ns);
        Ok(Escalation { warn_first: first, violations, pace, block, block_ns })
    }

    /// All of its limits.
    pub(in crate::limiter) fn limits(&self) -> impl Iterator<Item = u32> {
        [self.violations, self.pace, self.block].into_iter().flatten()
    }
}

/// A key that goes on is not warned again, so violations that are refused count too. Where none of them blocks, there is
/// no end to them, and one in this many parts of the time they count for is as good as all: see [`Remembered`].
const PARTS: u64 = 50;

/// Which violations of a key are remembered.
struct Remembered {
    /// So many within the span.
    most: u64,
    /// Where more than these may come: at most `first` at once, and so many in a span.
    pace: Option<u64>,
}

impl Remembered {
    /// Those that lead to a block, as many as that takes. Else a bucket says which: it holds `first`, so that one which
    /// is left out has `first` before it, all within a fiftieth of the span. What is warned by the rest is what would be
    /// warned by all, had they counted for up to a fiftieth less.
    fn under(on_limit: &OnLimit) -> Remembered {
        let first = on_limit.warn_first;
        match on_limit.block {
            Some(block) => Remembered { most: block.after.max(first), pace: None },
            None if first == 0 => Remembered { most: 0, pace: None },
            None => {
                // A log has an end, and so has a rate: one in a nanosecond.
                let pace = first.saturating_mul(PARTS).min(Quota::MAX_LOG.saturating_sub(first)).min(on_limit.span_ns);
                let most = first.saturating_add(pace).min(Quota::MAX_LOG).max(first);
                Remembered { most, pace: Some(pace.max(1)) }
            }
        }
    }
}

/// A request that could not be counted is no violation.
const VIOLATIONS: LimitOptions = LimitOptions { on_failure: OnFailure::Closed, refusals: Refusals::Counted };

/// A block that the store cannot tell of does not refuse. One that is known holds until its end.
const BLOCK: LimitOptions = LimitOptions { on_failure: OnFailure::Open, refusals: Refusals::Final };

/// Exact, because people are told after how many violations what happens.
fn violations(most: u64, span_ns: u64) -> Result<Quota, QuotaError> {
    Quota::sliding_window_log(Rate::new(most, Duration::from_nanos(span_ns))?)?.with_max_debt(0)
}

fn paced(count: u64, at_once: u64, span_ns: u64) -> Result<Quota, QuotaError> {
    Quota::token_bucket(Rate::new(count, Duration::from_nanos(span_ns))?.with_burst(at_once)?)
}

fn one_in(duration_ns: u64) -> Result<Quota, QuotaError> {
    // Nothing of it is ever settled, and a clock that goes back must not lengthen a block.
    Quota::token_bucket(Rate::new(1, Duration::from_nanos(duration_ns))?.with_burst(1)?)?.with_max_debt(0)
}
