//! The debt of a bucket: a TAT that lies further ahead than any check may move it.

use super::{Bucket, BucketState, TickSpan, state_at};

impl Bucket {
    /// Charges the cost above the estimate of a receipt that was made under `receipt_quota`, after this bucket has
    /// written the key. The largest debt is that of `receipt_quota`, capped at the tokens that this bucket holds.
    /// Returns the amount that exceeds it.
    pub fn owe_for(&self, receipt_quota: &Bucket, state: &mut BucketState, now: u64, cost: u64) -> u64 {
        self.owe_at_most(state, now, cost, receipt_quota.max_debt.min(self.max_held_tokens()))
    }

    /// Returns the backlog at a debt of `debt`. Reservations beyond the capacity count as debt: a state does not
    /// distinguish them.
    pub(super) fn backlog_with_debt(&self, debt: u64) -> TickSpan {
        self.plus(self.max_backlog_without_debt(), self.intervals(debt))
    }

    /// Charges `cost`, into debt up to `max_debt`. Returns the amount that exceeds it.
    pub(super) fn owe_at_most(&self, state: &mut BucketState, now: u64, cost: u64, max_debt: u64) -> u64 {
        let (backlog, max) = (self.backlog(*state, now), self.backlog_with_debt(max_debt));
        if backlog >= max {
            return cost;
        }
        let free_tokens = self.tokens_u128(self.minus(max, backlog));
        let after = if cost <= free_tokens { self.plus(backlog, self.intervals(cost)) } else { max };
        *state = state_at(now, after);
        cost.saturating_sub(free_tokens)
    }
}
