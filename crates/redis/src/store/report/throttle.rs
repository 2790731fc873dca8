//! Throttles events that every request may bring about: what happens between two of them is summed up.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

#[derive(Debug)]
pub(in crate::store) struct Throttle<T> {
    /// The least time between two events.
    apart: Duration,
    state: Mutex<State<T>>,
}

#[derive(Debug, Default)]
struct State<T> {
    sum: Option<T>,
    /// When the next event may be sent.
    next: Option<Instant>,
}

impl<T: Default> Throttle<T> {
    pub(in crate::store) fn new(apart: Duration) -> Throttle<T> {
        Throttle { apart, state: Mutex::new(State { sum: None, next: None }) }
    }

    /// Adds to what the next event tells.
    pub(in crate::store) fn record(&self, add: impl FnOnce(&mut T)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        add(state.sum.get_or_insert_default());
    }

    /// What happened since the last event, if another one is due.
    pub(in crate::store) fn take(&self, now: Instant) -> Option<T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.next.is_some_and(|next| now < next) {
            return None;
        }
        let sum = state.sum.take()?;
        state.next = Some(now + self.apart);
        Some(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const APART: Duration = Duration::from_secs(10);

    #[test]
    fn the_first_event_is_due_at_once_and_counts_are_summed_after_it() {
        let (throttle, now) = (Throttle::<u64>::new(APART), Instant::now());
        assert_eq!(throttle.take(now), None);
        throttle.record(|count| *count += 1);
        assert_eq!(throttle.take(now), Some(1));
        (0..100).for_each(|_| throttle.record(|count| *count += 1));
        assert_eq!(throttle.take(now + APART / 2), None);
        throttle.record(|count| *count += 1);
        assert_eq!(throttle.take(now + APART), Some(101));
        assert_eq!(throttle.take(now + APART * 3), None);
        throttle.record(|count| *count += 6);
        assert_eq!(throttle.take(now + APART * 3), Some(6));
    }
}
