//! How often somebody hears of values on the servers that are nothing that a store wrote.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How far apart two notices are. Such a value stays until somebody removes it, and may be asked for all the time.
const APART: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct BadValues {
    spent: Mutex<Spent>,
}

#[derive(Debug, Default)]
struct Spent {
    /// From when on there may be another notice.
    next: Option<Instant>,
    since_last: u64,
}

impl BadValues {
    /// Counts one more call that failed for such a value. Returns how many have since the last notice, if it is time
    /// for another.
    pub(super) fn note(&self, now: Instant) -> Option<u64> {
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
    fn the_first_is_told_at_once_and_the_others_together() {
        let (bad_values, now) = (BadValues::default(), Instant::now());
        assert_eq!(bad_values.note(now), Some(1));
        assert_eq!((0..100).filter_map(|_| bad_values.note(now + APART / 2)).count(), 0);
        assert_eq!(bad_values.note(now + APART), Some(101));
    }
}
