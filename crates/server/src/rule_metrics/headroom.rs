//! What remains of a limit after a decision, as a share of it.

use std::sync::OnceLock;

use tollgate::Decision;

/// Shares of a limit, in millionths, with what a metric calls them.
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

/// What is between two bounds, or above them all, is a step.
pub(super) const STEPS: usize = BOUNDS.len() + 1;

/// What the bounds up to which the steps go are called.
pub(super) fn bound_names() -> impl Iterator<Item = &'static str> {
    BOUNDS.iter().map(|(_, name)| *name).chain(["+Inf"])
}

/// The step and the share of what remains, in millionths. Whatever remains is more than nothing.
pub(super) fn step_and_share(decision: &Decision) -> (usize, u64) {
    let limit = decision.limit.max(1);
    let share = match decision.remaining.checked_mul(MILLION) {
        Some(scaled) => scaled.div_ceil(limit).min(MILLION),
        // Then a millionth of the limit is a large number.
        None => (decision.remaining / (limit / MILLION).max(1)).clamp(1, MILLION),
    };
    (BOUNDS.partition_point(|(bound, _)| *bound < share), share)
}

/// The same for a quota whose limit is known, without a division: that is asked for every rule of every request.
#[derive(Debug, Default)]
pub(super) struct KnownLimit(OnceLock<Known>);

#[derive(Debug)]
struct Known {
    limit: u64,
    /// For each bound, the most that is not above it.
    most: [u64; BOUNDS.len()],
    /// What remains is summed up without so many of its last bits, lest the sum of something large overflow.
    dropped_bits: u32,
}

/// So many bits of a limit are kept: shares are then about as exact as millionths.
const KEPT_BITS: u32 = 20;

impl KnownLimit {
    /// The step of what remains, and what it adds to the sum. A limit is known
    /// from its first decision; `None` for a decision under another one.
    #[inline]
    pub(super) fn step_and_part(&self, decision: &Decision) -> Option<(usize, u64)> {
        let known = self.0.get_or_init(|| Known::new(decision.limit));
        if known.limit != decision.limit {
            return None;
        }
        // From the top: most keys have used little of their limit.
        let mut step = BOUNDS.len();
        while step > 0 && decision.remaining <= known.most[step - 1] {
            step -= 1;
        }
        Some((step, decision.remaining >> known.dropped_bits))
    }

    /// Such a sum as a share of the limit, in millionths.
    pub(super) fn share(&self, sum: u64) -> u64 {
        let Some(known) = self.0.get() else { return 0 };
        let scaled = (u128::from(sum) * u128::from(MILLION)) << known.dropped_bits;
        u64::try_from(scaled / u128::from(known.limit.max(1))).unwrap_or(u64::MAX)
    }
}

impl Known {
    fn new(limit: u64) -> Known {
        let most = |bound: u64| u128::from(limit) * u128::from(bound) / u128::from(MILLION);
        Known {
            limit,
            most: BOUNDS.map(|(bound, _)| u64::try_from(most(bound)).unwrap_or(u64::MAX)),
            dropped_bits: (u64::BITS - limit.leading_zeros()).saturating_sub(KEPT_BITS),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tollgate::ChargeVerdict;

    use super::*;

    fn decision(remaining: u64, limit: u64) -> Decision {
        Decision { verdict: ChargeVerdict::Allowed { delay: 0 }, limit, remaining, next_after: 0, reset_after: 0 }
    }

    #[test]
    fn headroom_is_what_remains_of_the_limit() {
        let step = |remaining, limit| bound_names().nth(step_and_share(&decision(remaining, limit)).0).unwrap();
        assert_eq!((step(0, 5), step(1, 100), step(5, 100), step(6, 100)), ("0", "0.05", "0.05", "0.1"));
        assert_eq!((step(1, 2), step(9, 10), step(10, 10)), ("0.5", "0.9", "+Inf"));
        // One of very many is not nothing, and nothing overflows.
        assert_eq!((step(1, u64::MAX), step(u64::MAX, u64::MAX), step(0, 0)), ("0.05", "+Inf", "0"));
        let share = |remaining, limit| step_and_share(&decision(remaining, limit)).1;
        assert_eq!((share(1, 4), share(u64::MAX / 2, u64::MAX)), (250_000, 500_000));
    }

    #[test]
    fn a_limit_is_known_from_its_first_decision() {
        let known = KnownLimit::default();
        assert_eq!(known.share(7), 0);
        assert_eq!(known.step_and_part(&decision(3, 4)), Some((5, 3)));
        assert_eq!(known.step_and_part(&decision(3, 5)), None);
        assert_eq!((known.share(7), known.share(0)), (1_750_000, 0));
    }

    proptest! {
        /// Whether or not the limit is known, the same comes out.
        #[test]
        fn a_known_limit_says_the_same(
            limit in prop_oneof![1_u64..2_000, 1_u64..1_u64 << 43, any::<u64>()],
            parts in 0_u64..=1_000,
            beside in 0_u64..3,
        ) {
            let exact = u64::try_from(u128::from(limit) * u128::from(parts) / 1_000).unwrap();
            let decision = decision(exact.saturating_add(beside).saturating_sub(1).min(limit), limit);
            let known = KnownLimit::default();
            let (step, part) = known.step_and_part(&decision).unwrap();
            let (expected, share) = step_and_share(&decision);
            // Beyond these even millionths are rounded.
            if limit <= u64::MAX / MILLION {
                prop_assert_eq!(step, expected);
            }
            // One because the other is rounded up, and less than two for the bits that are dropped.
            prop_assert!(known.share(part).abs_diff(share) <= 3, "{} is {}", known.share(part), share);
        }
    }
}
