use crate::decision::Decision;

/// A rate limiting algorithm: decides charges against the state of one key and updates that state.
///
/// Implementations are compiled quotas. All times are in [ticks](crate::Tick). No input panics or overflows. The
/// default state is that of an unused key.
///
/// ```
/// use tollgate_core::{Algorithm, FixedWindow, Quota, Tick, WindowState};
///
/// let quota = Quota::fixed_window("2/min".parse()?)?;
/// let window = FixedWindow::new(&quota, Tick::Nanosecond).expect("the quota is a fixed window");
/// let (mut state, now) = (WindowState::default(), 60_000_000_000);
/// assert_eq!(window.check(&mut state, now, 1).remaining, 1);
/// let charged = window.charged(&state, now, 1);
/// window.refund(&mut state, now, &charged, 1);
/// assert_eq!(window.peek(&state, now, 0).remaining, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Algorithm {
    /// The state that is stored for one key.
    type State: Default;

    /// Decides `cost` without charging it. A cost of 0 is always allowed: it reads what remains.
    fn peek(&self, state: &Self::State, now: u64, cost: u64) -> Decision;

    /// Decides `cost`, and charges it if it is allowed.
    ///
    /// A refusal does not change the state, except where the state had to be corrected because the clock went back.
    fn check(&self, state: &mut Self::State, now: u64, cost: u64) -> Decision;

    /// Like [`check`](Algorithm::check), for a caller that can wait up to `max_wait`.
    ///
    /// Only buckets can reserve tokens ahead of time; for all other algorithms this is a plain check.
    fn check_within(&self, state: &mut Self::State, now: u64, cost: u64, max_wait: u64) -> Decision {
        let _ = max_wait;
        self.check(state, now, cost)
    }

    /// Charges as much of `cost` as fits, even if a check would refuse it. Returns the amount that did not fit.
    ///
    /// It penalises refused requests where that is wanted, and adds costs that were counted elsewhere.
    fn force(&self, state: &mut Self::State, now: u64, cost: u64) -> u64;

    /// Like [`force`](Algorithm::force), but the amount that does not fit becomes debt, up to the quota's `max_debt`.
    /// Later requests wait until the debt is paid. Returns the amount that exceeds even that.
    ///
    /// It settles charges above their estimate.
    fn owe(&self, state: &mut Self::State, now: u64, cost: u64) -> u64;

    /// Refunds `amount` of the charge that `charged` describes, but never more than the key is still charged for it:
    /// tokens that time has refilled since are not refunded again.
    ///
    /// The caller must refund a charge only once, with an `amount` of at most its cost.
    fn refund(&self, state: &mut Self::State, now: u64, charged: &Charged, amount: u64);

    /// Refunds `amount` of the used amount, newest charges first, for a caller without a receipt. Reservations are
    /// kept.
    fn credit(&self, state: &mut Self::State, now: u64, amount: u64) {
        let newest = self.charged(state, now, amount);
        // Changing the part makes the record differ from the state: a reservation must never be undone here, because
        // its holder may still use it.
        let charged = Charged { part: newest.part ^ 1, ..newest };
        self.refund(state, now, &charged, amount);
    }

    /// Removes `cost` from the reservations of a key, if `last` is the last of them. Returns whether it did. Only
    /// buckets have reservations.
    fn withdraw(&self, state: &mut Self::State, last: &Charged, cost: u64) -> bool {
        let _ = (state, last, cost);
        false
    }

    /// Returns the record of a charge that was just allowed. A store keeps it in the receipt, for a refund.
    fn charged(&self, state: &Self::State, now: u64, cost: u64) -> Charged;

    /// Returns the time from which the state equals that of an unused key, so that a store may drop it.
    fn expires_at(&self, state: &Self::State) -> u64;

    /// Brings a state up to date at `now`, without charging or refunding: converts it to this quota if another quota
    /// wrote it, drops expired entries, and clamps a time that lies too far ahead because the clock went back.
    fn refresh(&self, state: &mut Self::State, now: u64);

    /// Returns the state of a key that has used `used` at `now`, capped at the limit. A store calls it when a key
    /// changes to another algorithm. (Between two buckets, [`Bucket::convert`](crate::Bucket::convert) is used,
    /// which also keeps debt.)
    fn state_with_used(&self, used: u64, now: u64) -> Self::State;

    /// Resets the state to that of an unused key.
    fn reset(&self, state: &mut Self::State) {
        *state = Self::State::default();
    }

    /// Replaces an estimated cost by the true cost: refunds the difference, or charges it with [`owe`](Algorithm::owe).
    fn settle(&self, state: &mut Self::State, now: u64, charged: &Charged, true_cost: u64) -> Settlement {
        if true_cost <= charged.cost {
            self.refund(state, now, charged, charged.cost - true_cost);
            return Settlement { overrun: 0 };
        }
        Settlement { overrun: self.owe(state, now, true_cost - charged.cost) }
    }
}

/// The record of one charge, sufficient to refund it without creating quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charged {
    /// The time of the charge; for a reservation, the time when it departs.
    pub at: u64,
    /// The charged cost.
    pub cost: u64,
    /// The value that identifies the charge in the state: the TAT of a bucket after the charge, the start of a window,
    /// the time of a log entry or the id of a lease.
    pub mark: u64,
    /// The numerator of the fraction of a tick that belongs to the TAT in `mark`; 0 for other algorithms.
    pub part: u32,
}

/// The result of settling a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// The part of the true cost that exceeded even the quota's `max_debt`, and was not charged.
    pub overrun: u64,
}
