//! Clients that stand out: bots, scrapers, credential stuffers.

use std::cmp::Reverse;

/// A client stands out if a figure of it is at least this many times that of the next lower client.
pub const OUTLIER_GAP: u64 = 3;

/// The fewest clients among which one can stand out.
const MIN_CLIENTS: usize = 20;

/// At most one client in this many stands out by one figure. What more clients do is ordinary.
const MAX_OUTLIER_SHARE: usize = 20;

/// Returns the smallest figure of the clients that stand out: the largest relative gap among the highest twentieth of
/// the figures, if it is at least [`OUTLIER_GAP`]. `None` if none stands out.
///
/// A figure below `floor` never stands out: it is harmless, however low the others are.
pub(super) fn outlier_threshold(mut figures: Vec<u64>, floor: u64) -> Option<u64> {
    if figures.len() < MIN_CLIENTS {
        return None;
    }
    figures.sort_unstable_by_key(|figure| Reverse(*figure));
    let most = figures.len().div_ceil(MAX_OUTLIER_SHARE);
    let gaps = figures.windows(2).take(most).filter(|pair| is_gap(pair[0], pair[1]) && pair[0] >= floor);
    // The largest gap; of equal gaps the lower one, which comes later.
    gaps.reduce(|largest, pair| if ratio_is_less(pair, largest) { largest } else { pair }).map(|pair| pair[0])
}

fn is_gap(upper: u64, lower: u64) -> bool {
    upper >= lower.max(1).saturating_mul(OUTLIER_GAP)
}

/// Whether the ratio of the first pair is smaller than that of the second.
fn ratio_is_less(one: &[u64], other: &[u64]) -> bool {
    let product = |upper: u64, lower: u64| u128::from(upper) * u128::from(lower.max(1));
    product(one[0], other[1]) < product(other[0], one[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_above_a_gap_stand_out() {
        let ordinary: Vec<u64> = (0..98).map(|at| 1 + at % 40).collect();
        let with = |more: &[u64]| outlier_threshold([&ordinary, more].concat(), 10);
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[600]), Some(600));
        assert_eq!(with(&[600, 900]), Some(600));
        assert_eq!(with(&[100, 60]), None, "nothing is three times the next lower figure");
        assert_eq!(with(&[5_000, 130]), Some(5_000), "the largest gap decides");
    }

    #[test]
    fn nothing_stands_out_among_few_clients_or_low_figures() {
        assert_eq!(outlier_threshold(vec![1; 18].into_iter().chain([900]).collect(), 10), None);
        assert_eq!(outlier_threshold(vec![1; 50].into_iter().chain([9]).collect(), 10), None);
        assert_eq!(outlier_threshold(vec![0; 50].into_iter().chain([10]).collect(), 10), Some(10));
    }

    #[test]
    fn behaviour_of_many_clients_is_ordinary() {
        let figures = |heavy: usize| (0..100).map(|at| if at < heavy { 1_000 } else { 5 }).collect();
        assert_eq!((outlier_threshold(figures(5), 10), outlier_threshold(figures(6), 10)), (Some(1_000), None));
    }
}
