//! A check taken apart, for stores that swap states themselves.

use super::{Bucket, BucketState, state_at};
use crate::decision::{Decision, Verdict};

/// A check in steps, for stores that swap states themselves and read the
/// answer only when the swap has succeeded.
pub trait CheckSteps: Copy {
    /// The state after the charge, if it passes at once.
    fn pass(self, state: BucketState, now: u64) -> Option<BucketState>;

    /// The answer to a request that passed and left the bucket in `next`.
    fn passed(self, next: BucketState, now: u64) -> Decision;

    /// What remains in `state`, as the answer to a request that would pass but
    /// is not charged. `None` if the state lies further ahead than the quota allows.
    fn untouched(self, state: BucketState, now: u64) -> Option<Decision>;

    /// The answer to a request that does not pass. `None` in the rare cases,
    /// which [`Algorithm::check`](crate::Algorithm::check) deals with: a queue, a cost that can never
    /// pass, and a state that lies further ahead than the quota allows.
    fn refused(self, state: BucketState, now: u64) -> Option<Decision>;
}

/// See [`Bucket::steps`].
#[derive(Clone, Copy, Debug)]
pub struct AnySteps<'a> {
    pub(super) bucket: &'a Bucket,
    pub(super) cost: u64,
}

impl CheckSteps for AnySteps<'_> {
    #[inline(always)]
    fn pass(self, state: BucketState, now: u64) -> Option<BucketState> {
        let after = self.bucket.plus(self.bucket.used(state, now), self.bucket.price(self.cost)?);
        if after <= self.bucket.free { Some(state_at(now, after)) } else { None }
    }

    #[inline(always)]
    fn passed(self, next: BucketState, now: u64) -> Decision {
        self.bucket.answer(Verdict::Allowed { delay: 0 }, self.bucket.used(next, now))
    }

    #[inline(always)]
    fn untouched(self, state: BucketState, now: u64) -> Option<Decision> {
        let used = self.bucket.used(state, now);
        if used > self.bucket.depth {
            return None;
        }
        Some(self.bucket.answer(Verdict::Allowed { delay: 0 }, used))
    }

    #[inline(always)]
    fn refused(self, state: BucketState, now: u64) -> Option<Decision> {
        let bucket = self.bucket;
        let used = bucket.used(state, now);
        let after = bucket.plus(used, bucket.price(self.cost)?);
        if bucket.queues || used > bucket.depth {
            return None;
        }
        let retry_after = Some(bucket.minus(after, bucket.free).ceil());
        Some(bucket.answer(Verdict::Refused { retry_after }, used))
    }
}

/// See [`Bucket::whole_steps`]. No state of such a bucket has a fraction.
#[derive(Clone, Copy, Debug)]
pub struct WholeSteps<'a> {
    pub(super) bucket: &'a Bucket,
}

impl WholeSteps<'_> {
    #[inline(always)]
    fn answer(self, verdict: Verdict, used: u64) -> Decision {
        let bucket = self.bucket;
        let remaining = bucket.whole_tokens(bucket.free.ticks.saturating_sub(used));
        // Where something is used, less than the burst remains, and the next token is one of it.
        let next_after = if used == 0 { 0 } else { (remaining + 1) * bucket.token.ticks + used - bucket.free.ticks };
        Decision { verdict, limit: bucket.limit, remaining, next_after, reset_after: used }
    }
}

impl CheckSteps for WholeSteps<'_> {
    #[inline(always)]
    fn pass(self, state: BucketState, now: u64) -> Option<BucketState> {
        let after = state.tat.saturating_sub(now).saturating_add(self.bucket.token.ticks);
        if after <= self.bucket.free.ticks {
            Some(BucketState { tat: now.saturating_add(after), part: 0 })
        } else {
            None
        }
    }

    #[inline(always)]
    fn passed(self, next: BucketState, now: u64) -> Decision {
        self.answer(Verdict::Allowed { delay: 0 }, next.tat.saturating_sub(now))
    }

    #[inline(always)]
    fn untouched(self, state: BucketState, now: u64) -> Option<Decision> {
        let used = state.tat.saturating_sub(now);
        if used > self.bucket.depth.ticks {
            return None;
        }
        Some(self.answer(Verdict::Allowed { delay: 0 }, used))
    }

    #[inline(always)]
    fn refused(self, state: BucketState, now: u64) -> Option<Decision> {
        let used = state.tat.saturating_sub(now);
        if used > self.bucket.depth.ticks {
            return None;
        }
        let retry_after = Some(used + self.bucket.token.ticks - self.bucket.free.ticks);
        Some(self.answer(Verdict::Refused { retry_after }, used))
    }
}
