//! What regions report to each other in an epoch, and the loans that follow from it.

use std::collections::{BTreeSet, HashMap};

use tollgate_core::RegionShare;

use super::loans::{Offer, Want, divide};
use super::messages::ScopedKey;
use super::rates::KeyRates;

/// The report of a region: what it can spare and what it needs in the next epoch.
///
/// For the keys that it lists, that follows from their need. Of all other keys of a *blanket* scope it offers its share
/// without the reserve.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RegionReport {
    /// The region's share, in thousandths.
    pub(super) share: u32,
    /// The part of the share that it never lends.
    pub(super) reserve: u32,
    pub(super) blanket: BTreeSet<String>,
    /// The rates of limits that keys need, in thousandths.
    pub(super) needs: KeyRates,
}

/// The part of a report that is accepted or not: the rest is stored before, in chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ReportHeader {
    pub(super) share: u32,
    pub(super) reserve: u32,
    pub(super) blanket: BTreeSet<String>,
    pub(super) chunks: usize,
    /// Distinguishes the chunks of this report.
    pub(super) sender: String,
}

impl ReportHeader {
    pub(super) fn encode(&self) -> String {
        let ReportHeader { share, reserve, blanket, chunks, sender } = self;
        let scopes = blanket.iter().map(|scope| format!("\n{scope}")).collect::<String>();
        format!("{share} {reserve} {chunks} {sender}{scopes}")
    }

    pub(super) fn decode(text: &str) -> Option<ReportHeader> {
        let mut lines = text.lines();
        let mut words = lines.next()?.split(' ');
        Some(ReportHeader {
            share: words.next()?.parse().ok()?,
            reserve: words.next()?.parse().ok()?,
            chunks: words.next()?.parse().ok()?,
            sender: words.next()?.to_owned(),
            blanket: lines.map(str::to_owned).collect(),
        })
    }
}

impl RegionReport {
    /// Returns the part of a key's rate that the region keeps, whatever is lent.
    fn kept(&self, key: &ScopedKey) -> u32 {
        match self.needs.get(key) {
            Some(need) => (*need).max(self.reserve).min(self.share),
            None if self.offers_all(key) => self.reserve,
            None => self.share,
        }
    }

    fn offers_all(&self, key: &ScopedKey) -> bool {
        key.parts().is_some_and(|(scope, _)| self.blanket.contains(scope))
    }

    fn wanted(&self, key: &ScopedKey) -> u32 {
        self.needs.get(key).map_or(0, |need| need.saturating_sub(self.share))
    }
}

/// Selects what a region lists in its report: the keys that need more than the reserve, at most `most` of them. Returns
/// whether it lists all of them.
pub(super) fn listed(needs_millionths: HashMap<ScopedKey, u64>, share: RegionShare, most: usize) -> (KeyRates, bool) {
    let thousandths =
        |millionths: u64| u32::try_from(millionths.div_ceil(1_000)).unwrap_or(u32::MAX).min(RegionShare::WHOLE);
    let needs = needs_millionths.into_iter().map(|(key, millionths)| (key, thousandths(millionths)));
    let mut needs: Vec<(ScopedKey, u32)> = needs.filter(|(_, need)| *need > share.reserve()).collect();
    let is_complete = needs.len() <= most;
    if !is_complete {
        needs.select_nth_unstable_by(most, |(a, needed), (b, more)| more.cmp(needed).then_with(|| a.cmp(b)));
        needs.truncate(most);
    }
    (needs.into_iter().collect(), is_complete)
}

/// Returns the rate that a region keeps of each listed key until the loans are known.
pub(super) fn kept_rates(needs: &KeyRates, share: RegionShare) -> KeyRates {
    needs.iter().map(|(key, need)| (key.clone(), (*need).max(share.reserve()).min(share.rate))).collect()
}

/// Returns what a region lends and borrows of each key, in thousandths of the limit's rate: positive if it borrows.
///
/// All regions compute this from the same reports: those that were accepted while their epoch lasted.
pub(super) fn balances(region: &str, reports: &[(String, RegionReport)]) -> HashMap<ScopedKey, i32> {
    let wanted: BTreeSet<&ScopedKey> =
        reports.iter().flat_map(|(_, report)| report.needs.keys().filter(|key| report.wanted(key) > 0)).collect();
    let mut balances = HashMap::new();
    for key in wanted {
        let (mut wants, mut offers) = (Vec::new(), Vec::new());
        for (name, report) in reports {
            let (amount, spare) = (report.wanted(key), report.share - report.kept(key).min(report.share));
            if amount > 0 {
                wants.push(Want { region: name, weight: report.share.into(), amount: amount.into() });
            } else if spare > 0 {
                offers.push(Offer { region: name, amount: spare.into() });
            }
        }
        let (loans, lent) = divide(&wants, &offers);
        let own = |amounts: &[u64], index: Option<usize>| index.map_or(0, |index| amounts[index] as i32);
        let borrowed = own(&loans, wants.iter().position(|want| want.region == region));
        let balance = borrowed - own(&lent, offers.iter().position(|offer| offer.region == region));
        if balance != 0 {
            balances.insert(key.clone(), balance);
        }
    }
    balances
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(number: u32) -> ScopedKey {
        ScopedKey::new("per-user 1000/60", &number.to_le_bytes())
    }

    fn report(share: u32, blanket: bool, needs: &[(u32, u32)]) -> RegionReport {
        RegionReport {
            share,
            reserve: share.div_ceil(20),
            blanket: blanket.then(|| "per-user 1000/60".to_owned()).into_iter().collect(),
            needs: needs.iter().map(|(number, need)| (key(*number), *need)).collect(),
        }
    }

    #[test]
    fn unused_share_is_lent_to_the_region_that_needs_it() {
        let reports = [
            ("ap".to_owned(), report(200, true, &[])),
            ("eu".to_owned(), report(500, true, &[(1, 100)])),
            ("us".to_owned(), report(300, true, &[(1, 1_000)])),
        ];
        let of = |region: &str| balances(region, &reports).get(&key(1)).copied();
        assert_eq!((of("ap"), of("eu"), of("us")), (Some(-190), Some(-400), Some(590)));
    }

    #[test]
    fn share_of_a_region_that_is_silent_or_lists_too_many_keys_is_not_lent() {
        let reports =
            [("eu".to_owned(), report(500, false, &[(2, 10)])), ("us".to_owned(), report(300, true, &[(1, 900)]))];
        assert_eq!(balances("us", &reports), HashMap::new());
        assert_eq!(balances("eu", &reports), HashMap::new());
    }

    #[test]
    fn keys_with_the_largest_need_are_listed_if_there_are_too_many() {
        let share = RegionShare::new(1, 2);
        let needs: HashMap<ScopedKey, u64> = (0..10).map(|number| (key(number), u64::from(number) * 20_000)).collect();
        let (all, is_complete) = listed(needs.clone(), share, 10);
        // The reserve is 25.
        assert_eq!((all.len(), all[&key(2)], is_complete), (8, 40, true));
        let (few, is_complete) = listed(needs, share, 3);
        assert_eq!((few, is_complete), ([7, 8, 9].map(|number| (key(number), number * 20)).into(), false));
        assert_eq!(kept_rates(&all, RegionShare::new(1, 10))[&key(9)], 100);
    }

    #[test]
    fn header_is_read_as_it_was_written() {
        let header = ReportHeader {
            share: 300,
            reserve: 15,
            blanket: ["a b", "c"].map(str::to_owned).into(),
            chunks: 7,
            sender: "x".into(),
        };
        assert_eq!(ReportHeader::decode(&header.encode()), Some(header.clone()));
        let bare = ReportHeader { blanket: BTreeSet::new(), ..header };
        assert_eq!(ReportHeader::decode(&bare.encode()), Some(bare));
        assert_eq!(ReportHeader::decode("300 15"), None);
    }

    proptest! {
        /// Whatever is reported, the rates of all regions are never more than the sum of their shares, and a region keeps
        /// what it has said.
        #[test]
        fn sum_of_all_rates_never_exceeds_the_sum_of_all_shares(
            regions in prop::collection::vec((1..400_u32, any::<bool>(), prop::collection::vec((0..4_u32, 0..1_001_u32), 0..4)), 2..6),
        ) {
            let reports: Vec<(String, RegionReport)> = regions.iter().enumerate()
                .map(|(index, (share, blanket, needs))| (index.to_string(), report(*share, *blanket, needs)))
                .collect();
            let of: Vec<_> = reports.iter().map(|(name, _)| balances(name, &reports)).collect();
            for number in 0..4 {
                let key = key(number);
                let sum: i32 = of.iter().filter_map(|balances| balances.get(&key)).sum();
                prop_assert!(sum <= 0, "{sum}");
                for (balances, (_, report)) in of.iter().zip(&reports) {
                    let rate = report.share as i32 + balances.get(&key).copied().unwrap_or(0);
                    prop_assert!(rate >= report.kept(&key) as i32);
                }
            }
        }
    }
}
