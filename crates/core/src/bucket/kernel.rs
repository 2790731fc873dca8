//! The kernels of a check: the computation of the next state, apart from that of the decision, for stores that change
//! states with a compare-and-swap.

use super::{Bucket, BucketState, TickSpan, state_at};
use crate::decision::{ChargeVerdict, Decision};

/// The arithmetic of one check, in parts: a store computes the next state, swaps it in itself, and computes the
/// decision only after the swap has succeeded.
pub trait CheckKernel: Copy {
    /// Returns the state after the charge, if the request passes at once.
    fn next_state(self, state: BucketState, now: u64) -> Option<BucketState>;

    /// Returns the decision for a request that passed, after which the state is `next`, at the same `now`.
    fn allowed_decision(self, next: BucketState, now: u64) -> Decision;

    /// Returns the decision for a request that would pass but is not charged. `None` if the TAT lies further ahead than
    /// the quota allows, because the clock went back.
    fn peek_decision(self, state: BucketState, now: u64) -> Option<Decision>;

    /// Returns the decision for a request that [does not pass](CheckKernel::next_state). `None` in the rare cases that
    /// [`Algorithm::check`](crate::Algorithm::check) handles: a queue, a cost that can never pass, and a TAT that lies
    /// further ahead than the quota allows.
    fn refusal(self, state: BucketState, now: u64) -> Option<Decision>;
}

/// The kernel for any cost: see [`Bucket::kernel`].
#[derive(Clone, Copy, Debug)]
pub struct AnyCostKernel<'a> {
    pub(super) bucket: &'a Bucket,
    pub(super) cost: u64,
}

impl CheckKernel for AnyCostKernel<'_> {
    #[inline(always)]
    fn next_state(self, state: BucketState, now: u64) -> Option<BucketState> {
        let after = self.bucket.plus(self.bucket.backlog(state, now), self.bucket.cost_span(self.cost)?);
        if after <= self.bucket.burst_tolerance { Some(state_at(now, after)) } else { None }
    }

    #[inline(always)]
    fn allowed_decision(self, next: BucketState, now: u64) -> Decision {
        self.bucket.decision(ChargeVerdict::Allowed { delay: 0 }, self.bucket.backlog(next, now))
    }

    #[inline(always)]
    fn peek_decision(self, state: BucketState, now: u64) -> Option<Decision> {
        let backlog = self.bucket.backlog(state, now);
        if backlog > self.bucket.max_backlog {
            return None;
        }
        Some(self.bucket.decision(ChargeVerdict::Allowed { delay: 0 }, backlog))
    }

    #[inline(always)]
    fn refusal(self, state: BucketState, now: u64) -> Option<Decision> {
        let bucket = self.bucket;
        let backlog = bucket.backlog(state, now);
        let after = bucket.plus(backlog, bucket.cost_span(self.cost)?);
        if bucket.queues || backlog > bucket.max_backlog {
            return None;
        }
        let retry_after = Some(bucket.minus(after, bucket.burst_tolerance).ceil());
        Some(bucket.decision(ChargeVerdict::Refused { retry_after }, backlog))
    }
}

/// The kernel for a cost of 1, with fractions of ticks: see [`Bucket::fraction_kernel`].
#[derive(Clone, Copy, Debug)]
pub struct FractionKernel<'a> {
    pub(super) bucket: &'a Bucket,
}

impl CheckKernel for FractionKernel<'_> {
    #[inline(always)]
    fn next_state(self, state: BucketState, now: u64) -> Option<BucketState> {
        let bucket = self.bucket;
        let backlog = bucket.backlog(state, now);
        // The first comparison excludes backlogs whose units do not fit in 64 bits.
        if backlog.ticks > bucket.burst_tolerance.ticks || bucket.units_u64(backlog) > bucket.max_passing_units {
            return None;
        }
        let part = backlog.part + bucket.emission_interval.part;
        let carry = part >= bucket.den;
        let ticks = backlog.ticks + bucket.emission_interval.ticks + u64::from(carry);
        Some(state_at(now, TickSpan { ticks, part: if carry { part - bucket.den } else { part } }))
    }

    #[inline(always)]
    fn allowed_decision(self, next: BucketState, now: u64) -> Decision {
        let bucket = self.bucket;
        // After a request that passed, the backlog is at most the burst tolerance, and the TAT is not before `now`.
        let backlog = TickSpan { ticks: next.tat - now, part: next.part };
        let backlog_units = bucket.units_u64(backlog);
        let free_units = bucket.capacity_units - backlog_units;
        let remaining = bucket.tokens_in_units(free_units);
        // At the largest time the TAT saturates, so that the backlog can be 0.
        let missing = if backlog_units == 0 { 0 } else { (remaining + 1) * bucket.interval_units - free_units };
        let verdict = ChargeVerdict::Allowed { delay: 0 };
        let next_after = bucket.ticks_ceil(missing);
        Decision { verdict, limit: bucket.limit, remaining, next_after, reset_after: backlog.ceil() }
    }

    #[inline(always)]
    fn peek_decision(self, state: BucketState, now: u64) -> Option<Decision> {
        self.bucket.kernel(1).peek_decision(state, now)
    }

    #[inline(always)]
    fn refusal(self, state: BucketState, now: u64) -> Option<Decision> {
        let bucket = self.bucket;
        let backlog = bucket.backlog(state, now);
        if backlog > bucket.max_backlog {
            return None;
        }
        let missing = bucket.minus(bucket.plus(backlog, bucket.emission_interval), bucket.burst_tolerance);
        Some(refusal_of_one(bucket, missing.ceil(), backlog.ceil()))
    }
}

/// The kernel for a cost of 1, without fractions of ticks: see [`Bucket::whole_tick_kernel`].
#[derive(Clone, Copy, Debug)]
pub struct WholeTickKernel<'a> {
    pub(super) bucket: &'a Bucket,
}

impl CheckKernel for WholeTickKernel<'_> {
    #[inline(always)]
    fn next_state(self, state: BucketState, now: u64) -> Option<BucketState> {
        let backlog = state.tat.saturating_sub(now);
        // No state of this bucket has a fraction, so its units are ticks.
        if backlog <= self.bucket.max_passing_units {
            Some(BucketState { tat: now.saturating_add(backlog + self.bucket.emission_interval.ticks), part: 0 })
        } else {
            None
        }
    }

    #[inline(always)]
    fn allowed_decision(self, next: BucketState, now: u64) -> Decision {
        // After a request that passed, the backlog is at most the burst tolerance, and the TAT is not before `now`.
        let (bucket, backlog) = (self.bucket, next.tat - now);
        let free_ticks = bucket.burst_tolerance.ticks - backlog;
        let remaining = bucket.tokens_in_units(free_ticks);
        // At the largest time the TAT saturates, so that the backlog can be 0.
        let next_after = if backlog == 0 { 0 } else { (remaining + 1) * bucket.emission_interval.ticks - free_ticks };
        let verdict = ChargeVerdict::Allowed { delay: 0 };
        Decision { verdict, limit: bucket.limit, remaining, next_after, reset_after: backlog }
    }

    #[inline(always)]
    fn peek_decision(self, state: BucketState, now: u64) -> Option<Decision> {
        let (bucket, backlog) = (self.bucket, state.tat.saturating_sub(now));
        if backlog > bucket.max_backlog.ticks {
            return None;
        }
        // If something is used, less than the burst remains, and the next token is part of the burst.
        let remaining = bucket.tokens_in_units(bucket.burst_tolerance.ticks.saturating_sub(backlog));
        let next_after = if backlog == 0 {
            0
        } else {
            (remaining + 1) * bucket.emission_interval.ticks + backlog - bucket.burst_tolerance.ticks
        };
        let verdict = ChargeVerdict::Allowed { delay: 0 };
        Some(Decision { verdict, limit: bucket.limit, remaining, next_after, reset_after: backlog })
    }

    #[inline(always)]
    fn refusal(self, state: BucketState, now: u64) -> Option<Decision> {
        let (bucket, backlog) = (self.bucket, state.tat.saturating_sub(now));
        if backlog > bucket.max_backlog.ticks {
            return None;
        }
        Some(refusal_of_one(bucket, backlog + bucket.emission_interval.ticks - bucket.burst_tolerance.ticks, backlog))
    }
}

/// Returns the refusal of a cost of 1: nothing remains, and the request passes when the next token is refilled.
#[inline(always)]
fn refusal_of_one(bucket: &Bucket, retry_after: u64, reset_after: u64) -> Decision {
    let verdict = ChargeVerdict::Refused { retry_after: Some(retry_after) };
    Decision { verdict, limit: bucket.limit, remaining: 0, next_after: retry_after, reset_after }
}
