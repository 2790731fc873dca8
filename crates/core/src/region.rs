use std::fmt;

use crate::quota::{AlgorithmKind, Quota};

/// The rate of a limit that a region enforces, in parts of the whole rate.
///
/// Regions divide a limit by weight: each has its share of the rate and of the burst, and may lend the part of its rate
/// that it does not need, except for a reserve. The burst is never lent.
///
/// ```
/// use tollgate_core::{Quota, RegionShare};
///
/// let limit = Quota::token_bucket("1000/min burst 1000".parse()?)?;
/// let share = RegionShare::new(30, 100);
/// assert_eq!((share.rate, share.reserve()), (300, 15));
/// assert_eq!(share.quota(&limit)?.burst(), 300);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionShare {
    /// The share of the rate in thousandths ([`RegionShare::WHOLE`]), rounded down.
    pub rate: u32,
    weight: u32,
    total_weight: u32,
}

/// The reasons why a limit cannot be divided among regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotRegional {
    /// The rate of the algorithm cannot be lent: only that of a token bucket, or of a leaky bucket without a queue.
    Algorithm,
    /// The region's share of the burst is less than one token.
    NoBurst,
    /// The region's weight is less than a thousandth of the sum.
    NoRate,
}

impl fmt::Display for NotRegional {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotRegional::Algorithm => {
                "only token buckets, and leaky buckets without a queue, can be divided among regions"
            }
            NotRegional::NoBurst => {
                "the region's share of the burst is less than one request: raise the burst or its weight"
            }
            NotRegional::NoRate => "the region's weight is less than a thousandth of the sum: raise it",
        })
    }
}

impl std::error::Error for NotRegional {}

impl RegionShare {
    /// The whole rate, in the unit of shares.
    pub const WHOLE: u32 = 1_000;

    /// A region never lends this part of its share: numerator and denominator. So a key that is new to the region can
    /// be served until what was lent is known.
    pub const RESERVE: (u32, u32) = (1, 20);

    /// Returns the share of a region with this weight; `total_weight` is the sum over all regions.
    #[must_use]
    pub fn new(weight: u32, total_weight: u32) -> RegionShare {
        let total_weight = total_weight.max(1);
        let weight = weight.min(total_weight);
        let rate = u64::from(weight) * u64::from(RegionShare::WHOLE) / u64::from(total_weight);
        // At most WHOLE, because the weight is at most the sum.
        RegionShare { rate: rate as u32, weight, total_weight }
    }

    /// Returns the smaller of two shares.
    #[must_use]
    pub fn smaller(self, other: RegionShare) -> RegionShare {
        let is_smaller = u64::from(other.weight) * u64::from(self.total_weight)
            < u64::from(self.weight) * u64::from(other.total_weight);
        if is_smaller { other } else { self }
    }

    /// Returns the part of the rate that is never lent, in thousandths.
    #[must_use]
    pub fn reserve(self) -> u32 {
        let (part, whole) = RegionShare::RESERVE;
        (self.rate * part).div_ceil(whole)
    }

    /// Returns the quota of the region: the limit's whole rate with the region's share of the burst, rounded down.
    /// [`rate`](RegionShare::rate) is the part of that rate which refills it.
    pub fn quota(self, limit: &Quota) -> Result<Quota, NotRegional> {
        match limit.kind() {
            AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket if limit.ahead_ns() == 0 => {}
            _ => return Err(NotRegional::Algorithm),
        }
        if self.rate == 0 {
            return Err(NotRegional::NoRate);
        }
        let scaled = |tokens: u64| {
            let share = u128::from(tokens) * u128::from(self.weight) / u128::from(self.total_weight);
            // At most `tokens`.
            share as u64
        };
        limit.with_smaller_burst(scaled(limit.burst()), scaled(limit.max_debt())).ok_or(NotRegional::NoBurst)
    }

    /// Returns the quota of a region that lends and borrows nothing: its share of the rate and of the burst.
    pub fn quota_without_loans(self, limit: &Quota) -> Result<Quota, NotRegional> {
        self.quota(limit)?.at_rate_thousandths(self.rate).ok_or(NotRegional::NoRate)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::quota::Queue;

    fn bucket(text: &str) -> Quota {
        Quota::token_bucket(text.parse().unwrap()).unwrap()
    }

    #[test]
    fn shares_are_rounded_down_and_sum_to_at_most_the_whole() {
        let shares = [50, 30, 20].map(|weight| RegionShare::new(weight, 100));
        assert_eq!(shares.map(|share| share.rate), [500, 300, 200]);
        assert_eq!(shares.map(RegionShare::reserve), [25, 15, 10]);
        let thirds = RegionShare::new(1, 3);
        assert_eq!((thirds.rate, thirds.reserve()), (333, 17));
        let limit = bucket("1000/min burst 1000");
        assert_eq!(shares.map(|share| share.quota(&limit).unwrap().burst()), [500, 300, 200]);
        assert_eq!(thirds.quota(&limit).unwrap().burst(), 333);
        assert_eq!(thirds.quota(&limit).unwrap().max_debt(), 333);
    }

    #[test]
    fn quota_without_loans_has_a_share_of_the_rate_that_is_rounded_down() {
        let limit = bucket("1000/min burst 1000");
        let alone = RegionShare::new(30, 100).quota_without_loans(&limit).unwrap();
        assert_eq!((alone.amount(), alone.period_ns(), alone.burst()), (1_000, 200_000_000_000, 300));
        let third = RegionShare::new(1, 3).quota_without_loans(&limit).unwrap();
        // 60 s / 0.333
        assert_eq!((third.period_ns(), third.burst()), (180_180_180_181, 333));
        let slow = bucket("1 per 10 years burst 3");
        assert_eq!(RegionShare::new(1, 2).quota_without_loans(&slow).unwrap().burst(), 1);
        assert_eq!(
            RegionShare::new(1, 10).quota_without_loans(&bucket("1 per 10 years burst 3")),
            Err(NotRegional::NoBurst)
        );
        let slowest = bucket("1 per 30 years");
        assert_eq!(RegionShare::new(9, 10).quota_without_loans(&slowest), Err(NotRegional::NoBurst));
    }

    #[test]
    fn smaller_share_has_less_weight_in_its_sum() {
        let (third, half) = (RegionShare::new(10, 30), RegionShare::new(2, 4));
        assert_eq!((third.smaller(half), half.smaller(third)), (third, third));
    }

    #[test]
    fn share_without_a_token_or_a_rate_is_an_error() {
        let small = bucket("1/min burst 1");
        assert_eq!(RegionShare::new(50, 100).quota(&small), Err(NotRegional::NoBurst));
        assert!(RegionShare::new(50, 100).quota(&bucket("1/min burst 2")).is_ok());
        assert_eq!(RegionShare::new(1, 2_000).quota(&bucket("1000/min burst 10000")), Err(NotRegional::NoRate));
    }

    #[test]
    fn only_buckets_without_reservations_are_divided() {
        let rate = || "1000/min".parse().unwrap();
        let share = RegionShare::new(1, 2);
        for quota in [
            Quota::fixed_window(rate()),
            Quota::sliding_window_log(rate()),
            Quota::sliding_window_counter(rate()),
            Quota::leaky_queue(rate(), Queue { size: 10, max_wait: None }),
            Quota::concurrency(10, None),
            bucket("1000/min").with_reservations(Duration::from_secs(1)),
        ] {
            assert_eq!(share.quota(&quota.unwrap()), Err(NotRegional::Algorithm));
        }
        assert!(share.quota(&Quota::leaky_bucket(rate()).unwrap()).is_ok());
    }
}
