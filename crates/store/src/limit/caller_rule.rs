//! Quotas that callers choose, beside those of the policy.

use std::time::Duration;

use tollgate_core::{AlgorithmKind, Bucket, FixedWindow, Quota, Rate, Tick};

use crate::limit::LimitError;

/// A caller's quota, compiled. It has no tag: its entries carry it whole.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CallerRule {
    Bucket { bucket: Bucket, quota: PlainQuota },
    Window(FixedWindow),
}

/// A token bucket without debts by the numbers it is made of: as much as an entry can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlainQuota {
    pub(crate) amount: u64,
    pub(crate) period_ns: u64,
    pub(crate) burst: u64,
}

impl CallerRule {
    pub(crate) fn new(quota: &Quota) -> Result<CallerRule, LimitError> {
        let rule = match quota.kind() {
            AlgorithmKind::TokenBucket => {
                let plain = PlainQuota { amount: quota.amount(), period_ns: quota.period_ns(), burst: quota.burst() };
                // Any other bucket would be read back as another than it was.
                let bucket = plain.bucket().filter(|bucket| Bucket::new(quota, Tick::Nanosecond) == Some(*bucket));
                bucket.map(|bucket| CallerRule::Bucket { bucket, quota: plain })
            }
            AlgorithmKind::FixedWindow => FixedWindow::new(quota, Tick::Nanosecond).map(CallerRule::Window),
            _ => None,
        };
        rule.ok_or(LimitError::NotForCallers)
    }
}

impl PlainQuota {
    /// `None` for numbers that no quota is made of.
    pub(crate) fn bucket(self) -> Option<Bucket> {
        let rate = Rate::new(self.amount, Duration::from_nanos(self.period_ns)).ok()?;
        let quota = Quota::token_bucket(rate.with_burst(self.burst).ok()?).ok()?;
        Bucket::new(&quota.with_max_debt(0).ok()?, Tick::Nanosecond)
    }
}
