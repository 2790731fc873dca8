//! Throttles the log event for debts that were charged.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::store::report::stats::StoreEvent;

/// The least time between two events. A server that is often late makes and clears small debts all the time.
const APART: Duration = Duration::from_secs(10);

/// Debts charged since the last event.
#[derive(Debug, Default)]
pub(in crate::store) struct Payments {
    unreported: Mutex<Unreported>,
}

#[derive(Debug, Default)]
struct Unreported {
    debts: u64,
    amount: u64,
    next: Option<Instant>,
}

impl Payments {
    pub(in crate::store) fn record(&self, debts: u64, amount: u64) {
        let mut unreported = self.unreported();
        unreported.debts += debts;
        unreported.amount = unreported.amount.saturating_add(amount);
    }

    /// The event that is due, where this many keys still owe.
    pub(in crate::store) fn take_event(&self, still_owing: usize, now: Instant) -> Option<StoreEvent> {
        let mut unreported = self.unreported();
        let is_time = unreported.next.is_none_or(|next| next <= now);
        if unreported.debts == 0 || !is_time {
            return None;
        }
        let Unreported { debts, amount, .. } = std::mem::take(&mut *unreported);
        unreported.next = Some(now + APART);
        Some(StoreEvent::DebtsPaid { debts, amount, still_owing: still_owing as u64 })
    }

    fn unreported(&self) -> MutexGuard<'_, Unreported> {
        self.unreported.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_due_every_ten_seconds_while_debts_are_charged() {
        let (payments, now) = (Payments::default(), Instant::now());
        assert_eq!(payments.take_event(0, now), None);
        payments.record(1, 5);
        let event = |debts, amount, still_owing| Some(StoreEvent::DebtsPaid { debts, amount, still_owing });
        assert_eq!(payments.take_event(9, now), event(1, 5, 9));
        payments.record(2, 7);
        assert_eq!(payments.take_event(7, now + APART / 2), None);
        payments.record(1, 1);
        assert_eq!(payments.take_event(6, now + APART), event(3, 8, 6));
        payments.record(6, 6);
        assert_eq!(payments.take_event(0, now + APART), None);
        assert_eq!(payments.take_event(0, now + APART * 2), event(6, 6, 0));
        assert_eq!(payments.take_event(0, now + APART * 3), None);
    }
}
