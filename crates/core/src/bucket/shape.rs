//! The numbers of a compiled bucket, for a store that decides elsewhere.

use super::{Bucket, TickSpan};

/// The numbers of a compiled bucket, for stores whose decisions are made in another language. A *backlog* is
/// `max(TAT − now, 0)`: the used amount as the time until the bucket is full again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketShape {
    /// The emission interval `T` of GCRA: the time in which one token refills.
    pub emission_interval: TickSpan,
    /// The denominator of the fractions of this bucket: the `part` of a span is the numerator.
    pub denominator: u32,
    /// The largest backlog after a request that passes at once, `burst · T`; zero for a queue.
    pub burst_tolerance: TickSpan,
    /// The largest backlog after an admitted request, with reservations. For a queue, one position more than its size,
    /// but at most `max_wait + T`: settled costs may reach it, requests only the capacity.
    pub ceiling: TickSpan,
    /// The largest debt in tokens, beyond the capacity (a queue: beyond the ceiling). Reservations beyond the capacity
    /// count as debt, because a state does not distinguish them.
    pub max_debt: u64,
    /// The backlog from which nothing remains: that of the burst; for a queue that of its size, but at most
    /// `max_wait + T`.
    pub capacity: TickSpan,
    /// The largest `remaining`: the capacity in tokens.
    pub limit: u64,
    /// Whether the bucket is a queue: it delays requests instead of refusing them.
    pub queues: bool,
}

impl BucketShape {
    /// Returns the largest backlog after a plain check.
    #[must_use]
    pub const fn bound(&self) -> TickSpan {
        if self.queues { self.capacity } else { self.burst_tolerance }
    }

    /// Returns the number of tokens up to the ceiling, rounded up. It includes reservations, so it can exceed the
    /// largest valid limit.
    #[must_use]
    pub fn tokens_below_ceiling(&self) -> u128 {
        self.units(self.ceiling).div_ceil(self.units(self.emission_interval).max(1))
    }

    /// Returns the number of whole tokens up to the ceiling. For a queue, that is how many can be used without debt, at
    /// most one more than its limit. (For other buckets that is the limit: reservations beyond it count as debt.)
    #[must_use]
    pub fn tokens_held(&self) -> u64 {
        u64::try_from(self.units(self.ceiling) / self.units(self.emission_interval).max(1)).unwrap_or(u64::MAX)
    }

    fn units(&self, span: TickSpan) -> u128 {
        u128::from(span.ticks) * u128::from(self.denominator) + u128::from(span.part)
    }
}

impl Bucket {
    /// Returns the numbers of this bucket.
    #[must_use]
    pub const fn shape(&self) -> BucketShape {
        BucketShape {
            emission_interval: self.emission_interval,
            denominator: self.den,
            burst_tolerance: self.burst_tolerance,
            ceiling: self.ceiling,
            max_debt: self.max_debt,
            capacity: self.capacity,
            limit: self.limit,
            queues: self.queues,
        }
    }

    /// Returns the time in which `cost` refills; `None` if the bucket can never hold it.
    #[must_use]
    pub fn span_of(&self, cost: u64) -> Option<TickSpan> {
        self.cost_span(cost)
    }
}
