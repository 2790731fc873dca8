//! A compiled bucket in numbers, for a store that computes elsewhere.

use super::{Bucket, Span};

/// The numbers a bucket decides by, for stores whose decisions are made in
/// another language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketShape {
    /// What one token takes to refill.
    pub token: Span,
    /// What the parts of all its spans are counted in.
    pub denominator: u32,
    /// What may be used while a request passes at once; nothing for a queue.
    pub free: Span,
    /// Up to where anything is admitted, with all that is promised ahead.
    pub ceiling: Span,
    /// How many tokens may be owed beyond the burst or queue, with what is promised there.
    pub max_debt: u64,
    /// Up to where requests may use it: a queue's places, the burst of the others.
    pub brim: Span,
    /// The largest `remaining`.
    pub limit: u64,
    /// Whether it delays what others would refuse.
    pub queues: bool,
}

impl BucketShape {
    /// Up to where a plain check lets the use grow.
    #[must_use]
    pub const fn bound(&self) -> Span {
        if self.queues { self.brim } else { self.free }
    }

    /// How many tokens lie below the ceiling: more than any limit where much is promised ahead.
    #[must_use]
    pub fn tokens_below_ceiling(&self) -> u128 {
        self.units(self.ceiling).div_ceil(self.units(self.token).max(1))
    }

    /// How many whole tokens a state can hold; of a queue that can be one more than its limit.
    #[must_use]
    pub fn tokens_held(&self) -> u64 {
        u64::try_from(self.units(self.ceiling) / self.units(self.token).max(1)).unwrap_or(u64::MAX)
    }

    fn units(&self, span: Span) -> u128 {
        u128::from(span.ticks) * u128::from(self.denominator) + u128::from(span.part)
    }
}

impl Bucket {
    /// The numbers it decides by.
    #[must_use]
    pub const fn shape(&self) -> BucketShape {
        BucketShape {
            token: self.token,
            denominator: self.den,
            free: self.free,
            ceiling: self.ceiling,
            max_debt: self.max_debt,
            brim: self.brim,
            limit: self.limit,
            queues: self.queues,
        }
    }

    /// What `cost` takes to refill; `None` if that can never be held.
    #[must_use]
    pub fn span_of(&self, cost: u64) -> Option<Span> {
        self.price(cost)
    }
}
