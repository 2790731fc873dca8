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
    /// The largest `remaining`.
    pub limit: u64,
    /// Whether it delays what others would refuse.
    pub queues: bool,
}

impl BucketShape {
    /// Up to where a plain check lets the use grow.
    #[must_use]
    pub const fn bound(&self) -> Span {
        if self.queues { self.ceiling } else { self.free }
    }

    /// How many tokens lie below the ceiling: more than any limit where much is promised ahead.
    #[must_use]
    pub fn tokens_below_ceiling(&self) -> u128 {
        let units = |span: Span| u128::from(span.ticks) * u128::from(self.denominator) + u128::from(span.part);
        units(self.ceiling).div_ceil(units(self.token).max(1))
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
