use std::any::Any;
use std::sync::Arc;

use super::{Clock, ManualClock, RealClock};

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
