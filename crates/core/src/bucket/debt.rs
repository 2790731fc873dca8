//! What a bucket owes: the same time, only later.

use super::{Bucket, BucketState, Span, state_at};

impl Bucket {
    /// Charges what was settled above its estimate under a quota that another
    /// one, this, has taken the key over from since. What may be owed is
    /// `own`'s, but no more than one refill of this bucket.
    pub fn owe_for(&self, own: &Bucket, state: &mut BucketState, now: u64, cost: u64) -> u64 {
        self.owe_at_most(state, now, cost, own.max_debt.min(self.most_held()))
    }

    /// `X` where so much is owed. Places that are promised count as well: a state does not tell them from debt.
    pub(super) fn indebted(&self, debt: u64) -> Span {
        self.plus(self.full(), self.times(debt))
    }

    pub(super) fn owe_at_most(&self, state: &mut BucketState, now: u64, cost: u64, max_debt: u64) -> u64 {
        let (used, most) = (self.used(*state, now), self.indebted(max_debt));
        if used >= most {
            return cost;
        }
        let room = self.tokens_wide(self.minus(most, used));
        let after = if cost <= room { self.plus(used, self.times(cost)) } else { most };
        *state = state_at(now, after);
        cost.saturating_sub(room)
    }
}
