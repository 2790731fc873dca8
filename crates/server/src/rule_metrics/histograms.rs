//! The buckets of histograms: decision time, and headroom as a share of the limit.

use tollgate::quota::Decision;

/// From a decision in memory, which takes less than a microsecond, to several times the usual gateway timeout of 20
/// ms.
pub(super) const DURATION_BOUNDS_NS: [u64; 13] = [
    1_000,
    5_000,
    20_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
];

/// A counter for each bound, one above them all, and the sum.
pub(super) const DURATION_ROW: usize = DURATION_SUM + 1;
pub(super) const DURATION_SUM: usize = DURATION_BOUNDS_NS.len() + 1;

/// Returns the bucket of a duration. Searches linearly, because nearly all durations are below the first bound.
#[inline(always)]
pub(super) fn duration_bucket(ns: u64) -> usize {
    let mut bucket = 0;
    while bucket < DURATION_BOUNDS_NS.len() && ns > DURATION_BOUNDS_NS[bucket] {
        bucket += 1;
    }
    bucket
}

/// The upper bounds of headroom: shares of the limit in millionths, with their labels.
const BOUNDS: [(u64, &str); 7] = [
    (0, "0"),
    (50_000, "0.05"),
    (100_000, "0.1"),
    (250_000, "0.25"),
    (500_000, "0.5"),
    (750_000, "0.75"),
    (900_000, "0.9"),
];

const MILLION: u64 = 1_000_000;

/// The number of intervals between bounds, with the one above them all.
pub(super) const STEPS: usize = BOUNDS.len() + 1;

/// Returns the labels of the upper bounds.
pub(super) fn headroom_bounds() -> impl Iterator<Item = &'static str> {
    BOUNDS.iter().map(|(_, name)| *name).chain(["+Inf"])
}

/// Returns the interval and the share of what remains, in millionths. A nonzero remainder is more than 0.
pub(super) fn step_and_share(decision: &Decision) -> (usize, u64) {
    let limit = decision.limit.max(1);
    let share = match decision.remaining.checked_mul(MILLION) {
        Some(scaled) => scaled.div_ceil(limit).min(MILLION),
        // Here a millionth of the limit is a large number.
        None => (decision.remaining / (limit / MILLION).max(1)).clamp(1, MILLION),
    };
    (BOUNDS.partition_point(|(bound, _)| *bound < share), share)
}

/// The precision of sums in bits: the rounding error is far below a millionth of the limit.
const KEPT_BITS: u32 = 24;

/// The same for a known limit, without a division: needed for every rule of every request.
#[derive(Debug)]
pub(super) struct HeadroomSteps {
    pub(super) limit: u64,
    /// For each bound, the largest value that is not above it.
    max_values: [u64; BOUNDS.len()],
    /// The low bits that sums drop, so that sums of large values do not overflow.
    pub(super) dropped_bits: u32,
}

impl HeadroomSteps {
    pub(super) fn of(limit: u64) -> HeadroomSteps {
        let max_value = |bound: u64| u128::from(limit) * u128::from(bound) / u128::from(MILLION);
        HeadroomSteps {
            limit,
            max_values: BOUNDS.map(|(bound, _)| u64::try_from(max_value(bound)).unwrap_or(u64::MAX)),
            dropped_bits: (u64::BITS - limit.leading_zeros()).saturating_sub(KEPT_BITS),
        }
    }

    /// Returns the interval of what remains.
    #[inline(always)]
    pub(super) fn step(&self, remaining: u64) -> usize {
        // From the top: most keys have used little of their limit.
        let mut step = BOUNDS.len();
        while step > 0 && remaining <= self.max_values[step - 1] {
            step -= 1;
        }
        step
    }

    /// Returns a sum as a share of the limit, in millionths.
    pub(super) fn share(&self, sum: u64) -> u64 {
        let scaled = (u128::from(sum) * u128::from(MILLION)) << self.dropped_bits;
        u64::try_from(scaled / u128::from(self.limit.max(1))).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tollgate::quota::ChargeVerdict;

    use super::*;

    fn decision(remaining: u64, limit: u64) -> Decision {
        Decision { verdict: ChargeVerdict::Allowed { delay: 0 }, limit, remaining, next_after: 0, reset_after: 0 }
    }

    #[test]
    fn headroom_is_what_remains_of_the_limit() {
        let step = |remaining, limit| headroom_bounds().nth(step_and_share(&decision(remaining, limit)).0).unwrap();
        assert_eq!((step(0, 5), step(1, 100), step(5, 100), step(6, 100)), ("0", "0.05", "0.05", "0.1"));
        assert_eq!((step(1, 2), step(9, 10), step(10, 10)), ("0.5", "0.9", "+Inf"));
        // One of very many is not 0, and nothing overflows.
        assert_eq!((step(1, u64::MAX), step(u64::MAX, u64::MAX), step(0, 0)), ("0.05", "+Inf", "0"));
        let share = |remaining, limit| step_and_share(&decision(remaining, limit)).1;
        assert_eq!((share(1, 4), share(u64::MAX / 2, u64::MAX)), (250_000, 500_000));
    }

    #[test]
    fn sums_are_shares_of_the_limit() {
        let steps = HeadroomSteps::of(4);
        assert_eq!((steps.step(3), steps.share(7), steps.share(0)), (5, 1_750_000, 0));
    }

    #[test]
    fn durations_are_in_the_bucket_of_their_upper_bound() {
        assert_eq!([0, 1_000, 1_001, 100_000_000].map(duration_bucket), [0, 0, 1, 12]);
        assert_eq!(duration_bucket(u64::MAX), DURATION_SUM - 1);
    }

    proptest! {
        /// The result is the same for a known limit and for any other.
        #[test]
        fn known_limit_has_the_same_step_and_share(
            limit in prop_oneof![1_u64..2_000, 1_u64..1_u64 << 43, any::<u64>()],
            parts in 0_u64..=1_000,
            offset in 0_u64..3,
        ) {
            let exact = u64::try_from(u128::from(limit) * u128::from(parts) / 1_000).unwrap();
            let decision = decision(exact.saturating_add(offset).saturating_sub(1).min(limit), limit);
            let known = HeadroomSteps::of(limit);
            let (step, part) = (known.step(decision.remaining), decision.remaining >> known.dropped_bits);
            let (expected, share) = step_and_share(&decision);
            // Above this limit, even millionths are rounded.
            if limit <= u64::MAX / MILLION {
                prop_assert_eq!(step, expected);
            }
            prop_assert!(known.share(part).abs_diff(share) <= 2, "{} is {}", known.share(part), share);
        }
    }
}
