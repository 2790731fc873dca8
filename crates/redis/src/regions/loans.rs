//! Divides what regions offer among those that want more.
//!
//! The result is a pure function of the messages of an epoch that has ended. So every region computes the same loans by
//! itself, and nothing has to be decided in one place.

/// A region's wish for more of one key's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Want<'a> {
    pub(super) region: &'a str,
    /// The weight by which scarce offers are divided: the region's share of the limit.
    pub(super) weight: u64,
    pub(super) amount: u64,
}

/// The part of one key's rate that a region can spare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offer<'a> {
    pub(super) region: &'a str,
    pub(super) amount: u64,
}

/// Returns the loan of each want, and the amount lent of each offer. The loans are no more in sum than what is lent, and
/// no region lends more than it offers.
///
/// Scarce offers are divided by weight: the smallest wants relative to their weight are met first (weighted max-min
/// fairness).
pub(super) fn divide(wants: &[Want<'_>], offers: &[Offer<'_>]) -> (Vec<u64>, Vec<u64>) {
    let offered: u64 = offers.iter().map(|offer| offer.amount).sum();
    let mut loans = vec![0; wants.len()];
    let mut order: Vec<usize> = (0..wants.len()).collect();
    // Compares amount / weight without a division. The names make the order the same everywhere.
    order.sort_unstable_by(|&a, &b| {
        let (a, b) = (wants[a], wants[b]);
        let by_weight = (a.amount * b.weight.max(1)).cmp(&(b.amount * a.weight.max(1)));
        by_weight.then(a.region.cmp(b.region))
    });
    let mut left = offered;
    let mut weights: u64 = wants.iter().map(|want| want.weight.max(1)).sum();
    for index in order {
        let want = wants[index];
        let weight = want.weight.max(1);
        loans[index] = want.amount.min(left * weight / weights);
        left -= loans[index];
        weights -= weight;
    }
    let lent = offered - left;
    let lent_by = |offer: &Offer<'_>| (lent * offer.amount).div_ceil(offered.max(1));
    (loans, offers.iter().map(lent_by).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn loans_of(wants: &[(u64, u64)], offers: &[u64]) -> (Vec<u64>, Vec<u64>) {
        const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let wants: Vec<Want<'_>> =
            NAMES.iter().zip(wants).map(|(region, &(weight, amount))| Want { region, weight, amount }).collect();
        let offers: Vec<Offer<'_>> =
            NAMES.iter().zip(offers).map(|(region, &amount)| Offer { region, amount }).collect();
        divide(&wants, &offers)
    }

    #[test]
    fn small_wants_are_met_and_the_rest_is_divided_by_weight() {
        assert_eq!(loans_of(&[(1, 10)], &[100]), (vec![10], vec![10]));
        assert_eq!(loans_of(&[(1, 100), (1, 10)], &[60]), (vec![50, 10], vec![60]));
        assert_eq!(loans_of(&[(3, 100), (1, 100)], &[60]), (vec![45, 15], vec![60]));
        assert_eq!(loans_of(&[(1, 100)], &[30, 10]), (vec![40], vec![30, 10]));
        assert_eq!(loans_of(&[(1, 10)], &[30, 10]), (vec![10], vec![8, 3]));
        assert_eq!(loans_of(&[(1, 10)], &[]), (vec![0], vec![]));
        assert_eq!(loans_of(&[], &[10]), (vec![], vec![0]));
    }

    proptest! {
        #[test]
        fn loans_never_exceed_what_is_lent_nor_lent_what_is_offered(
            wants in prop::collection::vec((0..1_000_000_u64, 0..1_000_000_u64), 0..6),
            offers in prop::collection::vec(0..1_000_000_u64, 0..6),
        ) {
            let (loans, lent) = loans_of(&wants, &offers);
            prop_assert!(loans.iter().sum::<u64>() <= lent.iter().sum::<u64>());
            prop_assert!(lent.iter().zip(&offers).all(|(lent, offer)| lent <= offer));
            prop_assert!(loans.iter().zip(&wants).all(|(loan, want)| *loan <= want.1));
            // Nothing that is wanted is left over, except by rounding.
            let wanted: u64 = wants.iter().map(|want| want.1).sum();
            let expected = wanted.min(offers.iter().sum());
            prop_assert!(loans.iter().sum::<u64>() + wants.len() as u64 >= expected);
        }
    }
}
