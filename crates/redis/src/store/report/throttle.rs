//! Throttles events that every request may cause, and sums up the occurrences between two events.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

#[derive(Debug)]
pub(in crate::store) struct Throttle<T> {
    /// The least time between two events.
    interval: Duration,
    state: Mutex<State<T>>,
}

#[derive(Debug, Default)]
struct State<T> {
    sum: Option<T>,
    /// When the next event may be sent.
    next: Option<Instant>,
}

impl<T: Default> Throttle<T> {
    pub(in crate::store) fn new(interval: Duration) -> Throttle<T> {
        Throttle { interval, state: Mutex::new(State { sum: None, next: None }) }
    }

    /// Adds to the sum of the next event.
    pub(in crate::store) fn record(&self, add: impl FnOnce(&mut T)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        add(state.sum.get_or_insert_default());
    }

    /// Returns the sum since the last event, if there is one and another event is due.
    pub(in crate::store) fn take(&self, now: Instant) -> Option<T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.next.is_some_and(|next| now < next) {
            return None;
        }
        let sum = state.sum.take()?;
        state.next = Some(now + self.interval);
        Some(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(10);

    #[test]
    fn the_first_event_is_due_at_once_and_counts_are_summed_after_it() {
        let (throttle, now) = (Throttle::<u64>::new(INTERVAL), Instant::now());
        assert_eq!(throttle.take(now), None);
        throttle.record(|count| *count += 1);
        assert_eq!(throttle.take(now), Some(1));
        (0..100).for_each(|_| throttle.record(|count| *count += 1));
        assert_eq!(throttle.take(now + INTERVAL / 2), None);
        throttle.record(|count| *count += 1);
        assert_eq!(throttle.take(now + INTERVAL), Some(101));
        assert_eq!(throttle.take(now + INTERVAL * 3), None);
        throttle.record(|count| *count += 6);
        assert_eq!(throttle.take(now + INTERVAL * 3), Some(6));
    }
}
