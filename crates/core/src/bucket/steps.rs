//! A check taken apart, for stores that swap states themselves.

use super::{Bucket, BucketState, Span, state_at};
use crate::decision::{Decision, Verdict};

/// A check in steps, for stores that swap states themselves and read the
/// answer only when the swap has succeeded.
pub trait CheckSteps: Copy {
    /// The state after the charge, if it passes at once.
    fn pass(self, state: BucketState, now: u64) -> Option<BucketState>;

    /// The answer to a request that passed and left the bucket in `next`, at the same `now`.
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

/// See [`Bucket::fraction_steps`].
#[derive(Clone, Copy, Debug)]
pub struct FractionSteps<'a> {
    pub(super) bucket: &'a Bucket,
}

impl CheckSteps for FractionSteps<'_> {
    #[inline(always)]
    fn pass(self, state: BucketState, now: u64) -> Option<BucketState> {
        let bucket = self.bucket;
        let used = bucket.used(state, now);
        // In this order no span is multiplied that does not fit.
        if used.ticks > bucket.free.ticks || bucket.narrow_units(used) > bucket.last_units {
            return None;
        }
        let part = used.part + bucket.token.part;
        let carry = part >= bucket.den;
        let ticks = used.ticks + bucket.token.ticks + u64::from(carry);
        Some(state_at(now, Span { ticks, part: if carry { part - bucket.den } else { part } }))
    }

    #[inline(always)]
    fn passed(self, next: BucketState, now: u64) -> Decision {
        let bucket = self.bucket;
        // What passed left no more used than the burst, and a time that is not before `now`.
        let used = Span { ticks: next.tat - now, part: next.part };
        let used_units = bucket.narrow_units(used);
        let room = bucket.brim_units - used_units;
        let remaining = bucket.whole_tokens(room);
        // At the end of all time the state says less than was used.
        let missing = if used_units == 0 { 0 } else { (remaining + 1) * bucket.token_units - room };
        let verdict = Verdict::Allowed { delay: 0 };
        let next_after = bucket.ticks_up(missing);
        Decision { verdict, limit: bucket.limit, remaining, next_after, reset_after: used.ceil() }
    }

    #[inline(always)]
    fn untouched(self, state: BucketState, now: u64) -> Option<Decision> {
        self.bucket.steps(1).untouched(state, now)
    }

    #[inline(always)]
    fn refused(self, state: BucketState, now: u64) -> Option<Decision> {
        self.bucket.steps(1).refused(state, now)
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
        self.answer_of(verdict, used, self.bucket.free.ticks.saturating_sub(used))
    }

    /// The same where the room that is left is known.
    #[inline(always)]
    fn answer_of(self, verdict: Verdict, used: u64, room: u64) -> Decision {
        let bucket = self.bucket;
        let remaining = bucket.whole_tokens(room);
        // Where something is used, less than the burst remains, and the next token is one of it.
        let next_after = if used == 0 { 0 } else { (remaining + 1) * bucket.token.ticks + used - bucket.free.ticks };
        Decision { verdict, limit: bucket.limit, remaining, next_after, reset_after: used }
    }
}

impl CheckSteps for WholeSteps<'_> {
    #[inline(always)]
    fn pass(self, state: BucketState, now: u64) -> Option<BucketState> {
        let used = state.tat.saturating_sub(now);
        // Its burst is at least one token.
        if used <= self.bucket.free.ticks - self.bucket.token.ticks {
            Some(BucketState { tat: now.saturating_add(used + self.bucket.token.ticks), part: 0 })
        } else {
            None
        }
    }

    #[inline(always)]
    fn passed(self, next: BucketState, now: u64) -> Decision {
        // What passed left no more used than the burst, and a time that is not before `now`.
        let (bucket, used) = (self.bucket, next.tat - now);
        self.answer_of(Verdict::Allowed { delay: 0 }, used, bucket.free.ticks - used)
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
