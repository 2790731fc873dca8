mod slew;

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{SystemTime, UNIX_EPOCH};

use slew::{Sample, Slew};

/// Where a store takes its time from.
///
/// A clock may go backwards: the algorithms never over-admit by it and bound
/// the lock-out. It should be cheap, because every check reads it.
pub trait Clock: Send + Sync {
    /// Nanoseconds since 1970.
    fn now_ns(&self) -> u64;

    /// The real clock, if it is that: a store then reads it in place and not through a pointer.
    #[doc(hidden)]
    fn as_real(&self) -> Option<&RealClock> {
        None
    }
}

/// A monotonic clock that is set to the time of day and follows it slowly.
///
/// It reads the processor's cycle counter where that is reliable, at less than
/// half the price of [`std::time::Instant`]. Once a second, the read that comes
/// first compares it with the system's clock, and it then runs up to 484 parts
/// in a million faster or slower until both agree. It never steps, and all
/// clones show the same time. `docs/state.md` states what that bounds.
#[derive(Clone, Debug)]
pub struct RealClock {
    counter: Counter,
    /// What the counter must be advanced by, modulo 2^64, to show the time of day at the start.
    offset_ns: u64,
    slew: Arc<Slew>,
}

#[derive(Clone, Debug)]
enum Counter {
    /// The x86 time stamp counter, read in place: `ns = ticks * scale / 2^32`.
    #[cfg(target_arch = "x86_64")]
    TimeStamp { scale: u64 },
    /// Whatever else the machine has.
    Other { clock: quanta::Clock, start: u64 },
}

impl RealClock {
    /// A clock set to the time of day.
    #[must_use]
    pub fn new() -> RealClock {
        // The counter first: finding out how fast it is takes up to a millisecond, by which a
        // time of day read before would be late.
        let counter = Counter::new();
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

impl Counter {
    fn new() -> Counter {
        let clock = quanta::Clock::new();
        let start = clock.raw();
        #[cfg(target_arch = "x86_64")]
        {
            // quanta has found out whether the time stamp counter is steady, and how fast it
            // is. It uses it if what it reads lies between two readings of our own.
            let before = time_stamp();
            let raw = clock.raw();
            let after = time_stamp();
            if (before..=after).contains(&raw) {
                const SAMPLE_BITS: u32 = 40;
                let sample_ns = clock.delta_as_nanos(raw, raw + (1 << SAMPLE_BITS));
                return Counter::TimeStamp { scale: sample_ns >> (SAMPLE_BITS - 32) };
            }
        }
        Counter::Other { clock, start }
    }

    #[inline(always)]
    fn ns(&self) -> u64 {
        match self {
            #[cfg(target_arch = "x86_64")]
            Counter::TimeStamp { scale } => ((u128::from(time_stamp()) * u128::from(*scale)) >> 32) as u64,
            Counter::Other { clock, start } => other_ns(clock, *start),
        }
    }

    /// What the system's clock shows, between two readings of the counter: the closest of a few.
    fn sample(&self) -> Sample {
        const TRIES: usize = 4;
        let sample = || {
            let before_ns = self.ns();
            let wall_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
            let half_ns = self.ns().saturating_sub(before_ns) / 2;
            Sample { raw_ns: before_ns + half_ns, wall_ns, half_ns }
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

/// A clock that stands still until it is moved. All clones show the same time.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<Manual>);

#[derive(Debug, Default)]
struct Manual {
    now_ns: AtomicU64,
    /// Who sleeps until when.
    sleepers: Mutex<Vec<(u64, Waker)>>,
}

impl ManualClock {
    /// A clock that shows `now_ns`.
    #[must_use]
    pub fn at(now_ns: u64) -> ManualClock {
        let clock = ManualClock::default();
        clock.set(now_ns);
        clock
    }

    /// Moves it forward, and wakes who slept until then.
    pub fn advance(&self, ns: u64) {
        // One step, so that threads that all move it add up and never set it back.
        let later = |now_ns: u64| Some(now_ns.saturating_add(ns));
        let (Ok(before_ns) | Err(before_ns)) = self.0.now_ns.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later);
        self.wake_due(before_ns.saturating_add(ns));
    }

    /// Sets it, also back.
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

    /// Has `waker` woken when the clock shows `until_ns`.
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

/// The clock of one store, chosen when the store is built.
///
/// An enum instead of a type parameter: the real clock is read in place after
/// one branch that always goes the same way, and only other clocks are called
/// through a pointer.
pub(crate) enum ChosenClock {
    Real(RealClock),
    Manual(ManualClock),
    Other(Arc<dyn Clock>),
}

impl ChosenClock {
    pub(crate) fn new<C: Clock + 'static>(clock: C) -> ChosenClock {
        // All clones show the same time, so that one of them is as good as the clock behind a pointer.
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

/// Takes the value out if it is of the type `T`.
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
    /// Kept out of line, so that every check contains the real clock alone.
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
    fn any_other_clock_is_shared() {
        let chosen = ChosenClock::new(Stopped(3));
        assert!(matches!(chosen, ChosenClock::Other(_)));
        assert_eq!(chosen.now_ns(), 3);
        let shared: Arc<dyn Clock> = Arc::new(Stopped(4));
        let chosen = ChosenClock::new(Arc::clone(&shared));
        assert_eq!(chosen.now_ns(), 4);
        assert_eq!(Arc::strong_count(&shared), 2, "it is not wrapped again");
    }
}
