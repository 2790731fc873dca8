//! Debts that the servers have counted by now, and how somebody hears of it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::stats::StoreEvent;

/// While debts are being paid, somebody hears of it this often at most.
const APART: Duration = Duration::from_secs(10);

/// What was paid since somebody last heard of it.
#[derive(Debug, Default)]
pub(super) struct Payments {
    untold: Mutex<Untold>,
}

#[derive(Debug, Default)]
struct Untold {
    debts: u64,
    amount: u64,
    next: Option<Instant>,
}

impl Payments {
    pub(super) fn note(&self, debts: u64, amount: u64) {
        let mut untold = self.untold();
        untold.debts += debts;
        untold.amount = untold.amount.saturating_add(amount);
    }

    /// What to say of it, where keys of this number still owe something: now and then, and when all is paid.
    pub(super) fn tell(&self, still_owing: usize, now: Instant) -> Option<StoreEvent> {
        let mut untold = self.untold();
        let is_time = still_owing == 0 || untold.next.is_none_or(|next| next <= now);
        if untold.debts == 0 || !is_time {
            return None;
        }
        let Untold { debts, amount, .. } = std::mem::take(&mut *untold);
        untold.next = Some(now + APART);
        Some(StoreEvent::DebtsPaid { debts, amount, still_owing: still_owing as u64 })
    }

    fn untold(&self) -> MutexGuard<'_, Untold> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_now_and_then_and_when_all_is_paid() {
        let (payments, now) = (Payments::default(), Instant::now());
        assert_eq!(payments.tell(0, now), None);
        payments.note(1, 5);
        let told = |debts, amount, still_owing| Some(StoreEvent::DebtsPaid { debts, amount, still_owing });
        assert_eq!(payments.tell(9, now), told(1, 5, 9));
        payments.note(2, 7);
        assert_eq!(payments.tell(7, now + APART / 2), None);
        payments.note(1, 1);
        assert_eq!(payments.tell(6, now + APART), told(3, 8, 6));
        payments.note(6, 6);
        assert_eq!(payments.tell(0, now + APART), told(6, 6, 0));
        assert_eq!(payments.tell(0, now + APART * 3), None);
    }
}
