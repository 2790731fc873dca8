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

    /// The answer to a request that [does not pass](CheckSteps::pass). `None` in the rare cases,
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
        let bucket = self.bucket;
        let used = bucket.used(state, now);
        if used > bucket.depth {
            return None;
        }
        let missing = bucket.minus(bucket.plus(used, bucket.token), bucket.free);
        Some(refused_one(bucket, missing.ceil(), used.ceil()))
    }
}

/// See [`Bucket::whole_steps`]. No state of such a bucket has a fraction.
#[derive(Clone, Copy, Debug)]
pub struct WholeSteps<'a> {
    pub(super) bucket: &'a Bucket,
}

impl CheckSteps for WholeSteps<'_> {
    #[inline(always)]
    fn pass(self, state: BucketState, now: u64) -> Option<BucketState> {
        let used = state.tat.saturating_sub(now);
        // No state of it has a part, so its units are ticks.
        if used <= self.bucket.last_units {
            Some(BucketState { tat: now.saturating_add(used + self.bucket.token.ticks), part: 0 })
        } else {
            None
        }
    }

    #[inline(always)]
    fn passed(self, next: BucketState, now: u64) -> Decision {
        // What passed left no more used than the burst, and a time that is not before `now`.
        let (bucket, used) = (self.bucket, next.tat - now);
        let room = bucket.free.ticks - used;
        let remaining = bucket.whole_tokens(room);
        // At the end of all time the state says less than was used.
        let next_after = if used == 0 { 0 } else { (remaining + 1) * bucket.token.ticks - room };
        let verdict = Verdict::Allowed { delay: 0 };
        Decision { verdict, limit: bucket.limit, remaining, next_after, reset_after: used }
    }

    #[inline(always)]
    fn untouched(self, state: BucketState, now: u64) -> Option<Decision> {
        let (bucket, used) = (self.bucket, state.tat.saturating_sub(now));
        if used > bucket.depth.ticks {
            return None;
        }
        // Where something is used, less than the burst remains, and the next token is one of it.
        let remaining = bucket.whole_tokens(bucket.free.ticks.saturating_sub(used));
        let next_after = if used == 0 { 0 } else { (remaining + 1) * bucket.token.ticks + used - bucket.free.ticks };
        let verdict = Verdict::Allowed { delay: 0 };
        Some(Decision { verdict, limit: bucket.limit, remaining, next_after, reset_after: used })
    }

    #[inline(always)]
    fn refused(self, state: BucketState, now: u64) -> Option<Decision> {
        let (bucket, used) = (self.bucket, state.tat.saturating_sub(now));
        if used > bucket.depth.ticks {
            return None;
        }
        Some(refused_one(bucket, used + bucket.token.ticks - bucket.free.ticks, used))
    }
}

/// The answer where one token does not pass: none remains, and the request passes with the next one.
#[inline(always)]
fn refused_one(bucket: &Bucket, retry_after: u64, reset_after: u64) -> Decision {
    let verdict = Verdict::Refused { retry_after: Some(retry_after) };
    Decision { verdict, limit: bucket.limit, remaining: 0, next_after: retry_after, reset_after }
}
