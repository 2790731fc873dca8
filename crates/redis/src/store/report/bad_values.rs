//! Throttles the log event for values on the servers that tollgate did not write.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The time between two events. Such a value stays until an operator removes it, and every request may meet it.
const APART: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(in crate::store) struct BadValues {
    spent: Mutex<Spent>,
}

#[derive(Debug, Default)]
struct Spent {
    /// When the next event may be sent.
    next: Option<Instant>,
    since_last: u64,
}

impl BadValues {
    /// Counts a call that failed because of such a value. Returns the number since the last event, if another one is due.
    pub(in crate::store) fn record(&self, now: Instant) -> Option<u64> {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.since_last += 1;
        if spent.next.is_some_and(|next| now < next) {
            return None;
        }
        spent.next = Some(now + APART);
        Some(std::mem::take(&mut spent.since_last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_event_is_due_at_once_and_counts_are_summed_after_it() {
        let (bad_values, now) = (BadValues::default(), Instant::now());
        assert_eq!(bad_values.record(now), Some(1));
        assert_eq!((0..100).filter_map(|_| bad_values.record(now + APART / 2)).count(), 0);
        assert_eq!(bad_values.record(now + APART), Some(101));
    }
}
