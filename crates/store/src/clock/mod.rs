mod slew;

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use slew::{ClockSample, Slew};

/// The source of a store's time.
///
/// A clock may go backwards: the algorithms never admit more because of it, and bound the time for which keys are
/// locked out. It should be fast, because every check reads it.
///
/// ```
/// use tollgate_store::{Clock, MemoryOptions, MemoryStore};
///
/// /// A clock that never moves.
/// struct Stopped;
///
/// impl Clock for Stopped {
///     fn now_ns(&self) -> u64 {
///         1_800_000_000_000_000_000
///     }
/// }
///
/// let store = MemoryStore::with(MemoryOptions::default(), Stopped)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Clock: Send + Sync {
    /// Returns the time in nanoseconds since 1970.
    fn now_ns(&self) -> u64;

    /// Returns the real clock, if this is one. A store then reads it directly and not through a pointer.
    #[doc(hidden)]
    fn as_real(&self) -> Option<&RealClock> {
        None
    }
}

/// A monotonic clock that is set to the time of day and follows it slowly.
///
/// It reads the processor's cycle counter where that is reliable, at less than half the cost of [`std::time::Instant`].
/// Once a second, the first read compares it with the system's clock. It then runs up to 484 parts in a million faster
/// or slower until both agree. It never steps, and all clones show the same time. `docs/state.md` states the resulting
/// bounds.
#[derive(Clone, Debug)]
pub struct RealClock {
    counter: CycleCounter,
    /// The offset of the counter, modulo 2^64, to the time of day at the start.
    offset_ns: u64,
    slew: Arc<Slew>,
}

#[derive(Clone, Debug)]
enum CycleCounter {
    /// The x86 time stamp counter, read directly: `ns = ticks * scale / 2^32`.
    #[cfg(target_arch = "x86_64")]
    TimeStamp { scale: u64 },
    /// Any other clock of the machine.
    Other { clock: quanta::Clock, start: u64 },
}

impl RealClock {
    /// Creates a clock that is set to the time of day.
    #[must_use]
    pub fn new() -> RealClock {
        // The counter comes first: measuring its frequency takes up to a millisecond, and a time of day read before
        // that would be late.
        let counter = CycleCounter::new();
        let sample = counter.sample();
        let offset_ns = sample.wall_ns.wrapping_sub(sample.raw_ns);
        RealClock { counter, offset_ns, slew: Arc::new(Slew::from(sample.raw_ns)) }
    }

    #[cold]
    #[inline(never)]
    fn follow_system(&self) -> u64 {
        self.slew.follow(self.offset_ns, || self.counter.sample())
    }
}

impl CycleCounter {
    fn new() -> CycleCounter {
        let clock = quanta::Clock::new();
        let start = clock.raw();
        #[cfg(target_arch = "x86_64")]
        {
            // quanta has determined whether the time stamp counter is reliable, and its frequency. It uses the counter
            // if its reading lies between two readings of our own.
            let before = time_stamp();
            let raw = clock.raw();
            let after = time_stamp();
            if (before..=after).contains(&raw) {
                const SAMPLE_BITS: u32 = 40;
                let sample_ns = clock.delta_as_nanos(raw, raw + (1 << SAMPLE_BITS));
                return CycleCounter::TimeStamp { scale: sample_ns >> (SAMPLE_BITS - 32) };
            }
        }
        CycleCounter::Other { clock, start }
    }

    #[inline(always)]
    fn ns(&self) -> u64 {
        match self {
            #[cfg(target_arch = "x86_64")]
            CycleCounter::TimeStamp { scale } => ((u128::from(time_stamp()) * u128::from(*scale)) >> 32) as u64,
            CycleCounter::Other { clock, start } => other_ns(clock, *start),
        }
    }

    /// Reads the system's clock between two readings of the counter, several times, and returns the most precise
    /// sample.
    fn sample(&self) -> ClockSample {
        const TRIES: usize = 4;
        let sample = || {
            let before_ns = self.ns();
            let wall_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
            let half_ns = self.ns().saturating_sub(before_ns) / 2;
            ClockSample { raw_ns: before_ns + half_ns, wall_ns, half_ns }
        };
        let first = sample();
        (1..TRIES).map(|_| sample()).fold(first, |best, next| if next.half_ns < best.half_ns { next } else { best })
    }
}

#[inline(never)]
fn other_ns(clock: &quanta::Clock, start: u64) -> u64 {
    clock.delta_as_nanos(start, clock.raw())
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
#[inline(always)]
fn time_stamp() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and it touches no memory.
    unsafe { std::arch::x86_64::_rdtsc() }
}

impl Default for RealClock {
    fn default() -> RealClock {
        RealClock::new()
    }
}

impl Clock for RealClock {
    fn as_real(&self) -> Option<&RealClock> {
        Some(self)
    }

    #[inline(always)]
    fn now_ns(&self) -> u64 {
        let raw_ns = self.counter.ns();
        match self.slew.correction(raw_ns) {
            Some(correction_ns) => raw_ns.wrapping_add(self.offset_ns).wrapping_add(correction_ns),
            None => self.follow_system(),
        }
    }
}

/// A clock that moves only when it is advanced or set, for tests. All clones show the same time.
///
/// It is also a [`Timer`](crate::Timer) whose sleeps end when the clock reaches their time.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<ManualClockState>);

#[derive(Debug, Default)]
struct ManualClockState {
    now_ns: AtomicU64,
    /// The sleeping tasks, each with the time when it is due.
    sleepers: Mutex<Vec<(u64, Waker)>>,
}

impl ManualClock {
    /// Creates a clock that shows `now_ns`.
    #[must_use]
    pub fn at(now_ns: u64) -> ManualClock {
        let clock = ManualClock::default();
        clock.set(now_ns);
        clock
    }

    /// Moves the clock forward by `step` and wakes the sleepers that are due.
    ///
    /// The clock stops at `u64::MAX` nanoseconds.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tollgate_store::{Clock, ManualClock};
    ///
    /// let clock = ManualClock::at(1_000_000_000);
    /// clock.advance(Duration::from_millis(1_500));
    /// assert_eq!(clock.now_ns(), 2_500_000_000);
    /// ```
    pub fn advance(&self, step: Duration) {
        let ns = u64::try_from(step.as_nanos()).unwrap_or(u64::MAX);
        // One atomic update: the steps of several threads add up, and none sets the clock back.
        let later = |now_ns: u64| Some(now_ns.saturating_add(ns));
        let (Ok(before_ns) | Err(before_ns)) = self.0.now_ns.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later);
        self.wake_due(before_ns.saturating_add(ns));
    }

    /// Sets the clock, forward or back, and wakes the sleepers that are due.
    pub fn set(&self, now_ns: u64) {
        self.0.now_ns.store(now_ns, Ordering::SeqCst);
        self.wake_due(now_ns);
    }

    fn wake_due(&self, now_ns: u64) {
        let mut due = Vec::new();
        self.sleepers().retain(|(until, waker)| {
            let is_due = *until <= now_ns;
            if is_due {
                due.push(waker.clone());
            }
            !is_due
        });
        due.into_iter().for_each(Waker::wake);
    }

    /// Wakes `waker` when the clock shows `until_ns`.
    pub(crate) fn wake_at(&self, until_ns: u64, waker: Waker) {
        self.sleepers().push((until_ns, waker));
    }

    fn sleepers(&self) -> MutexGuard<'_, Vec<(u64, Waker)>> {
        self.0.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now_ns(&self) -> u64 {
        self.0.now_ns.load(Ordering::SeqCst)
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn as_real(&self) -> Option<&RealClock> {
        (**self).as_real()
    }

    fn now_ns(&self) -> u64 {
        (**self).now_ns()
    }
}

/// Reads the time after all loads before it.
///
/// Without the fence a processor may read its cycle counter early, and a state that another thread has just written
/// would seem to come from the future.
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

/// The clock of one store, chosen when the store is built.
///
/// This is an enum instead of a type parameter: the real clock is read directly, after one branch that always takes the
/// same direction, and only other clocks are called through a pointer.
pub(crate) enum ChosenClock {
    Real(RealClock),
    Manual(ManualClock),
    Other(Arc<dyn Clock>),
}

impl ChosenClock {
    pub(crate) fn new<C: Clock + 'static>(clock: C) -> ChosenClock {
        // All clones show the same time, so a clone can replace the clock behind a pointer.
        if let Some(real) = clock.as_real() {
            return ChosenClock::Real(real.clone());
        }
        let mut clock = Some(clock);
        if let Some(manual) = take_as(&mut clock) {
            return ChosenClock::Manual(manual);
        }
        if let Some(shared) = take_as(&mut clock) {
            return ChosenClock::Other(shared);
        }
        match clock {
            Some(other) => ChosenClock::Other(Arc::new(other)),
            None => unreachable!("a clock is taken at most once"),
        }
    }
}

/// Takes the value out of an option if it has the type `T`.
fn take_as<T: 'static>(value: &mut dyn Any) -> Option<T> {
    value.downcast_mut::<Option<T>>().and_then(Option::take)
}

impl Clock for ChosenClock {
    #[inline(always)]
    fn now_ns(&self) -> u64 {
        match self {
            ChosenClock::Real(real) => real.now_ns(),
            other => other.indirect_ns(),
        }
    }
}

impl ChosenClock {
    /// Not inlined, so that every check contains only the code of the real clock.
    #[cold]
    #[inline(never)]
    fn indirect_ns(&self) -> u64 {
        match self {
            ChosenClock::Real(real) => real.now_ns(),
            ChosenClock::Manual(manual) => manual.now_ns(),
            ChosenClock::Other(other) => other.now_ns(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Stopped(u64);

    impl Clock for Stopped {
        fn now_ns(&self) -> u64 {
            self.0
        }
    }

    #[test]
    fn real_and_manual_clocks_are_recognised() {
        assert!(matches!(ChosenClock::new(RealClock::new()), ChosenClock::Real(_)));
        let manual = ManualClock::at(1);
        let chosen = ChosenClock::new(manual.clone());
        assert!(matches!(chosen, ChosenClock::Manual(_)));
        manual.set(7);
        assert_eq!(chosen.now_ns(), 7);
    }

    #[test]
    fn other_clocks_are_shared_and_not_wrapped_twice() {
        let chosen = ChosenClock::new(Stopped(3));
        assert!(matches!(chosen, ChosenClock::Other(_)));
        assert_eq!(chosen.now_ns(), 3);
        let shared: Arc<dyn Clock> = Arc::new(Stopped(4));
        let chosen = ChosenClock::new(Arc::clone(&shared));
        assert_eq!(chosen.now_ns(), 4);
        assert_eq!(Arc::strong_count(&shared), 2, "it is not wrapped again");
    }
}
