use crate::bucket::Bucket;
use crate::concurrency::Concurrency;
use crate::quota::{AlgorithmKind, Quota};
use crate::tick::Tick;
use crate::window::fixed_window::FixedWindow;
use crate::window::sliding_counter::SlidingCounter;
use crate::window::sliding_log::SlidingLog;

/// A quota compiled for its algorithm and for one unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompiledQuota {
    /// Token buckets, leaky buckets and queues.
    Bucket(Bucket),
    /// Fixed windows, aligned to the clock.
    FixedWindow(FixedWindow),
    /// Sliding window counters: two windows, the previous one weighed by its overlap.
    SlidingCounter(SlidingCounter),
    /// Sliding window logs: one timestamp for each request.
    SlidingLog(SlidingLog),
    /// Concurrency limits: permits with optional leases.
    Concurrency(Concurrency),
}

/// The families of algorithms, one bit each. A quota can read the states of all quotas of its family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Family {
    /// Token buckets, leaky buckets and queues.
    Bucket = 1,
    /// Fixed windows.
    FixedWindow = 2,
    /// Sliding window counters.
    SlidingCounter = 4,
    /// Sliding window logs.
    SlidingLog = 8,
    /// Concurrency limits.
    Concurrency = 16,
}

impl CompiledQuota {
    /// Compiles a quota for the unit of time of a store.
    #[must_use]
    pub fn new(quota: &Quota, tick: Tick) -> CompiledQuota {
        let compiled = match quota.kind() {
            AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket | AlgorithmKind::LeakyQueue => {
                Bucket::new(quota, tick).map(CompiledQuota::Bucket)
            }
            AlgorithmKind::FixedWindow => FixedWindow::new(quota, tick).map(CompiledQuota::FixedWindow),
            AlgorithmKind::SlidingWindowCounter => SlidingCounter::new(quota, tick).map(CompiledQuota::SlidingCounter),
            AlgorithmKind::SlidingWindowLog => SlidingLog::new(quota, tick).map(CompiledQuota::SlidingLog),
            AlgorithmKind::Concurrency => Concurrency::new(quota, tick).map(CompiledQuota::Concurrency),
        };
        compiled.unwrap_or_else(|| unreachable!("every kind compiles by its own constructor"))
    }

    /// Returns the family of the algorithm.
    #[must_use]
    pub const fn family(&self) -> Family {
        match self {
            CompiledQuota::Bucket(_) => Family::Bucket,
            CompiledQuota::FixedWindow(_) => Family::FixedWindow,
            CompiledQuota::SlidingCounter(_) => Family::SlidingCounter,
            CompiledQuota::SlidingLog(_) => Family::SlidingLog,
            CompiledQuota::Concurrency(_) => Family::Concurrency,
        }
    }
}
