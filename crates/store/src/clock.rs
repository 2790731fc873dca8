use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where a store takes its time from.
///
/// A clock may go backwards: the algorithms never over-admit by it and bound
/// the lock-out. It should be cheap, because every check reads it.
pub trait Clock: Send + Sync {
    /// Nanoseconds since 1970.
    fn now_ns(&self) -> u64;
}

/// The process's monotonic clock, set once to the time of day.
///
/// It reads the processor's cycle counter where that is reliable, at less than
/// half the price of [`std::time::Instant`]. It never steps: a time of day that
/// is set later does not reach it.
#[derive(Clone, Debug)]
pub struct RealClock {
    counter: quanta::Clock,
    raw_at_start: u64,
    unix_ns_at_start: u64,
}

impl RealClock {
    /// A clock set to the time of day.
    #[must_use]
    pub fn new() -> RealClock {
        let counter = quanta::Clock::new();
        let raw_at_start = counter.raw();
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        RealClock { counter, raw_at_start, unix_ns_at_start: since_1970.as_nanos() as u64 }
    }
}

impl Default for RealClock {
    fn default() -> RealClock {
        RealClock::new()
    }
}

impl Clock for RealClock {
    #[inline]
    fn now_ns(&self) -> u64 {
        self.unix_ns_at_start + self.counter.delta_as_nanos(self.raw_at_start, self.counter.raw())
    }
}

/// A clock that stands still until it is moved. All clones show the same time.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// A clock that shows `now_ns`.
    #[must_use]
    pub fn at(now_ns: u64) -> ManualClock {
        ManualClock(Arc::new(AtomicU64::new(now_ns)))
    }

    /// Moves it forward.
    pub fn advance(&self, ns: u64) {
        self.0.fetch_add(ns, Ordering::SeqCst);
    }

    /// Sets it, also back.
    pub fn set(&self, now_ns: u64) {
        self.0.store(now_ns, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now_ns(&self) -> u64 {
        (**self).now_ns()
    }
}

/// The time, read after everything that was loaded before.
///
/// Without the fence a processor may read its cycle counter early, and a state
/// that somebody else has just written would seem to come from the future.
#[inline]
pub(crate) fn read_after_loads(clock: &impl Clock) -> u64 {
    std::sync::atomic::fence(Ordering::Acquire);
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    #[allow(unsafe_code)]
    // SAFETY: lfence is part of SSE2, which every x86-64 processor has.
    unsafe {
        std::arch::x86_64::_mm_lfence();
    }
    clock.now_ns()
}
