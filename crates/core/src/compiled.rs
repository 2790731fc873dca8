use crate::bucket::Bucket;
use crate::concurrency::Concurrency;
use crate::quota::{AlgorithmKind, Quota};
use crate::tick::Tick;
use crate::window::fixed_window::FixedWindow;
use crate::window::sliding_counter::SlidingCounter;
use crate::window::sliding_log::SlidingLog;

/// A quota, compiled for the algorithm that it names and for one unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompiledQuota {
    /// Token buckets, leaky buckets and queues.
    Bucket(Bucket),
    /// Windows aligned to the clock.
    FixedWindow(FixedWindow),
    /// Two windows, the previous one weighed by its overlap.
    SlidingCounter(SlidingCounter),
    /// Every request is remembered.
    SlidingLog(SlidingLog),
    /// Permits.
    Concurrency(Concurrency),
}

/// The families of algorithms, a bit each. Within a family each quota reads what another wrote.
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
    /// Permits.
    Concurrency = 16,
}

impl CompiledQuota {
    /// Compiles a quota.
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

    /// The family of its algorithm.
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
