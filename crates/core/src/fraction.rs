//! Token times as fractions with small denominators.

/// Denominators fit the 20 bits that a packed bucket has for its fraction.
pub(crate) const MAX_DENOMINATOR: u64 = 1 << 20;

/// Returns the smallest fraction `num/den ≥ p/q` with `den ≤ MAX_DENOMINATOR`.
///
/// It is exact if the reduced `q` is small enough. Otherwise it is the upper one of the two Farey neighbours around
/// `p/q`, found by descending the Stern–Brocot tree in strides.
pub(crate) fn smallest_not_below(p: u64, q: u64) -> (u64, u64) {
    let common = gcd(p, q);
    let (p, q) = (p / common, q / common);
    if q <= MAX_DENOMINATOR {
        return (p, q);
    }
    let (p, q, bound) = (u128::from(p), u128::from(q), u128::from(MAX_DENOMINATOR));
    // Invariant: low < p/q < high, and high.0 * low.1 - low.0 * high.1 == 1.
    let mut low = (p / q, 1);
    let mut high = (p / q + 1, 1);
    loop {
        let above = high.0 * q - p * high.1;
        let below = p * low.1 - low.0 * q;
        // Move the upper neighbour down as far as it stays above and within the bound.
        let stride = (above / below).min((bound - high.1) / low.1);
        high = (high.0 + stride * low.0, high.1 + stride * low.1);
        let above = high.0 * q - p * high.1;
        // Likewise move the lower neighbour up. It cannot reach p/q, because q exceeds the bound.
        let stride = (below / above).min((bound - low.1) / high.1);
        low = (low.0 + stride * high.0, low.1 + stride * high.1);
        if low.1 + high.1 > bound {
            break;
        }
    }
    (high.0 as u64, high.1 as u64)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn assert_close(p: u64, q: u64) {
        let (num, den) = smallest_not_below(p, q);
        let (p, q, num, den) = (u128::from(p), u128::from(q), u128::from(num), u128::from(den));
        assert!(den <= u128::from(MAX_DENOMINATOR));
        let excess = num * q - p * den; // underflow is a panic: never below
        // excess / (q den) relative to p / q, in parts of a million
        assert!(excess * 1_000_000 < p * den, "{p}/{q} became {num}/{den}");
    }

    #[test]
    fn fractions_of_known_rates_are_exact_or_close() {
        assert_eq!(smallest_not_below(1_000_000_000, 100), (10_000_000, 1));
        assert_eq!(smallest_not_below(60_000_000_000, 7), (60_000_000_000, 7));
        assert_eq!(smallest_not_below(1_000_000_000, 999_983), (1_000_000_000, 999_983));
        assert_close(1_000_000_000, 999_999_937);
        assert_close(1_000_000, 999_999_937);
        assert_close(31_536_000_000_000_000, 999_999_999_989);
    }

    proptest! {
        #[test]
        fn fractions_are_never_below_and_within_a_millionth(p in 1_u64..=1 << 60, q in 1_u64..=1_000_000_000_000) {
            prop_assume!(u128::from(p) * 1_000 >= u128::from(q));
            assert_close(p, q);
        }

        #[test]
        fn fractions_with_small_denominators_are_exact(p in 1_u64..=1 << 60, q in 1_u64..=MAX_DENOMINATOR) {
            let (num, den) = smallest_not_below(p, q);
            prop_assert_eq!(u128::from(num) * u128::from(q), u128::from(p) * u128::from(den));
        }
    }
}
