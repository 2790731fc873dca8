//! The bounds of a limit that regions divide.

use tollgate_core::{Quota, RegionShare};

use super::FallbackShare;
use crate::model::Regions;

/// The bounds of a limit that regions divide. All regions together admit at most what the limit admits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionalBound {
    /// The most that all regions together can admit of one key in addition, if the global server loses its state in a
    /// failover, or if its clock steps: it may then lend the offers of one epoch twice.
    pub global_failover: u64,
    /// The region of this instance, or every region if it is not set.
    pub regions: Vec<RegionBound>,
}

/// What one region enforces of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionBound {
    /// The name of the region.
    pub region: String,
    /// The burst, which is never lent.
    pub burst: u64,
    /// The rate that the region enforces if no rate is lent, in thousandths of the limit's rate.
    pub share_thousandths: u32,
    /// The largest rate, while all other regions lend it what they may lend.
    pub with_loans_thousandths: u32,
    /// The rate that the region never lends. A key that is new to the region has it until its loans are known.
    pub reserve_thousandths: u32,
    /// The most that the region can admit of one key in addition, if the server of its counters loses its state: the
    /// burst, and what the region has lent for up to two epochs. `None` if the counters are in the process.
    pub server_failover: Option<u64>,
    /// As much, if the counters are in the process and it restarts; `None` if they are on a server.
    pub restart: Option<u64>,
    /// The share that each instance grants while the store of the region fails.
    pub fallback: Option<FallbackShare>,
}

/// The part of a limit that its regions can lend or enforce.
pub(super) struct RegionalPromise<'p> {
    regions: &'p Regions,
    /// The counters are on a server, which can lose them. Those in memory are lost with the process.
    has_server: bool,
}

impl<'p> RegionalPromise<'p> {
    pub(super) fn new(regions: &'p Regions, has_server: bool) -> RegionalPromise<'p> {
        RegionalPromise { regions, has_server }
    }

    pub(super) const fn epoch_ns(&self) -> u64 {
        self.regions.sync_ns
    }

    /// Returns the region of this instance, or every region if it is not set, each with its share.
    pub(super) fn shown(&self) -> impl Iterator<Item = (&'p str, RegionShare)> {
        let own = self.regions.own.as_deref();
        self.regions.shares().filter(move |(name, _)| own.is_none_or(|own| own == *name))
    }

    /// Returns the smallest share that is shown. What it admits, every shown region admits.
    pub(super) fn smallest(&self) -> Option<RegionShare> {
        self.shown().map(|(_, share)| share).min_by_key(|share| share.rate)
    }

    /// Returns the bounds of a quota; `fallbacks` has the fallback share of each region that is shown, or is empty.
    pub(super) fn bound(&self, quota: &Quota, fallbacks: Vec<FallbackShare>) -> RegionalBound {
        let lendable = |share: RegionShare| share.rate - share.reserve().min(share.rate);
        let offers: u32 = self.regions.shares().map(|(_, share)| lendable(share)).sum();
        let epoch_ns = self.regions.sync_ns;
        let mut fallbacks = fallbacks.into_iter();
        let region = |(name, share): (&str, RegionShare)| {
            let burst = share.quota(quota).map_or(0, |quota| quota.burst());
            let lent = tokens(quota, lendable(share), epoch_ns.saturating_mul(2));
            RegionBound {
                region: name.to_owned(),
                burst,
                share_thousandths: share.rate,
                with_loans_thousandths: share.rate + offers - lendable(share),
                reserve_thousandths: share.reserve(),
                server_failover: self.has_server.then(|| burst.saturating_add(lent)),
                restart: (!self.has_server).then(|| burst.saturating_add(lent)),
                fallback: fallbacks.next(),
            }
        };
        let regions = self.shown().map(region).collect();
        RegionalBound { global_failover: tokens(quota, offers, epoch_ns), regions }
    }

    /// Returns how long a request of this cost can be refused in a region that has only its reserve, under full debt if
    /// `is_owing`; the longest of all regions that are shown. `None` if no request can pass.
    pub(super) fn longest_refusal_ns(&self, quota: &Quota, cost: u64, is_owing: bool) -> Option<u64> {
        let of_region = |(_, share): (&str, RegionShare)| {
            let own = share.quota(quota).ok().filter(|own| cost <= own.burst())?;
            let debt = if is_owing { own.max_debt() } else { 0 };
            let reserve = u128::from(quota.amount()) * u128::from(share.reserve());
            let missing = (u128::from(cost) + u128::from(debt)) * u128::from(RegionShare::WHOLE);
            let wait_ns = missing.saturating_mul(quota.period_ns().into()).div_ceil(reserve.max(1));
            Some(u64::try_from(wait_ns).unwrap_or(u64::MAX))
        };
        self.shown().map(of_region).collect::<Option<Vec<u64>>>()?.into_iter().max()
    }
}

/// Returns the tokens that refill in a span at a part of a quota's rate, in thousandths, rounded up.
fn tokens(quota: &Quota, thousandths: u32, span_ns: u64) -> u64 {
    let refilled = u128::from(quota.amount()) * u128::from(thousandths) * u128::from(span_ns);
    let tokens = refilled.div_ceil(u128::from(RegionShare::WHOLE) * u128::from(quota.period_ns().max(1)));
    u64::try_from(tokens).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::GlobalServer;

    const S_NS: u64 = 1_000_000_000;

    fn regions() -> Regions {
        let weights = [("eu", 50), ("us", 30), ("ap", 20)].map(|(name, weight)| (name.to_owned(), weight));
        Regions::new(weights.to_vec(), GlobalServer::at(vec!["global:6379".to_owned()]))
    }

    fn quota(rate: &str) -> Quota {
        Quota::token_bucket(rate.parse().unwrap()).unwrap()
    }

    #[test]
    fn figures_equal_those_computed_manually() {
        let bound = RegionalPromise::new(&regions(), true).bound(&quota("600/min burst 1000"), Vec::new());
        // Offers of 475, 285 and 190 thousandths of 10 tokens a second, for 10 seconds.
        assert_eq!(bound.global_failover, 95);
        let shown = |region: &RegionBound| {
            (region.burst, region.share_thousandths, region.with_loans_thousandths, region.reserve_thousandths)
        };
        let figures: Vec<_> = bound.regions.iter().map(shown).collect();
        assert_eq!(figures, [(500, 500, 975, 25), (300, 300, 965, 15), (200, 200, 960, 10)]);
        // The burst, and 475 thousandths of 10 tokens a second for 20 seconds.
        let failovers: Vec<_> = bound.regions.iter().map(|region| region.server_failover).collect();
        assert_eq!(failovers, [Some(595), Some(357), Some(238)]);
    }

    #[test]
    fn own_region_is_shown_alone_and_restarts_in_memory_as_servers_fail_over() {
        let regions = Regions { own: Some("us".to_owned()), ..regions() };
        let bound = RegionalPromise::new(&regions, false).bound(&quota("600/min"), Vec::new());
        let [us] = &bound.regions[..] else { panic!("{bound:?}") };
        // 180 at once, and 285 thousandths of 10 tokens a second for 20 seconds.
        assert_eq!((us.region.as_str(), us.server_failover, us.restart), ("us", None, Some(180 + 57)));
        assert_eq!((us.share_thousandths, us.with_loans_thousandths, us.reserve_thousandths), (300, 965, 15));
    }

    #[test]
    fn longest_refusal_is_at_the_rate_of_the_reserve() {
        let (all, quota) = (regions(), quota("600/min burst 1000"));
        let refusal_s = |regions: &Regions, cost| {
            RegionalPromise::new(regions, true).longest_refusal_ns(&quota, cost, false).map(|ns| ns / S_NS)
        };
        // 10 thousandths of 10 tokens a second is a token in 10 seconds, 25 thousandths one in 4.
        assert_eq!((refusal_s(&all, 1), refusal_s(&all, 200), refusal_s(&all, 201)), (Some(10), Some(2_000), None));
        let eu = Regions { own: Some("eu".to_owned()), ..all };
        assert_eq!((refusal_s(&eu, 1), refusal_s(&eu, 500), refusal_s(&eu, 501)), (Some(4), Some(2_000), None));
    }
}
