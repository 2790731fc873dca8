//! Quotas of callers' limits: a caller sends them with its request, as opposed to those of the policy.

use std::time::Duration;

use tollgate_core::{AlgorithmKind, Bucket, FixedWindow, Quota, Rate, Tick};

use crate::limit::LimitError;

/// The compiled quota of a caller's limit. It has no tag: its entries contain the whole quota.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CallerQuota {
    Bucket { bucket: Bucket, quota: PlainQuota },
    Window(FixedWindow),
}

/// A token bucket without debt, as the three numbers that an entry can contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlainQuota {
    pub(crate) amount: u64,
    pub(crate) period_ns: u64,
    pub(crate) burst: u64,
}

impl CallerQuota {
    pub(crate) fn new(quota: &Quota) -> Result<CallerQuota, LimitError> {
        let compiled = match quota.kind() {
            AlgorithmKind::TokenBucket => {
                let plain = PlainQuota { amount: quota.amount(), period_ns: quota.period_ns(), burst: quota.burst() };
                // Any other bucket would be read back as a different one.
                let bucket = plain.bucket().filter(|bucket| Bucket::new(quota, Tick::Nanosecond) == Some(*bucket));
                bucket.map(|bucket| CallerQuota::Bucket { bucket, quota: plain })
            }
            AlgorithmKind::FixedWindow => FixedWindow::new(quota, Tick::Nanosecond).map(CallerQuota::Window),
            _ => None,
        };
        compiled.ok_or(LimitError::NotForCallers)
    }
}

impl PlainQuota {
    /// Compiles the bucket; `None` if no quota has these numbers.
    pub(crate) fn bucket(self) -> Option<Bucket> {
        let rate = Rate::new(self.amount, Duration::from_nanos(self.period_ns)).ok()?;
        let quota = Quota::token_bucket(rate.with_burst(self.burst).ok()?).ok()?;
        Bucket::new(&quota.with_max_debt(0).ok()?, Tick::Nanosecond)
    }
}
