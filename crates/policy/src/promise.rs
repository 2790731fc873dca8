//! The promises of rules: upper bounds of what passes in any span of time.
//!
//! The figures are for one key, in one process or one shared store, without refunds. They come from [`max_admitted`],
//! which the tests of the algorithms verify; nothing here computes a limit a second time.

mod bound;
mod display;
mod lease;
mod regional;
pub(crate) mod shown;
pub(crate) mod words;

use tollgate_core::{NotLeased, Quota, RegionShare};

use crate::model::{Consistency, CostSource, FailureMode, Grant, Policy, Regions, Rule, StoreSettings};

use bound::Costs;
pub use bound::{AdmissionBound, DebtBound, MostAdmitted};
pub use lease::LeaseBound;
use regional::RegionalPromise;
pub use regional::{RegionBound, RegionalBound};
use shown::shown;
pub use words::{ANY_SPAN, algorithm as algorithm_words, limit as limit_words, most as most_words};

#[cfg(doc)]
use tollgate_core::max_admitted;

/// The promise of one rule. It displays as a block of lines, without a final line end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// The name of the rule.
    pub rule: String,
    /// The conditions of the rule in words, all of which must hold. Empty for all requests.
    pub when: Vec<String>,
    /// The identities that the rule counts by. Empty if all clients share one counter.
    pub key: Vec<String>,
    /// The budget that the rule charges. The figures are then for all rules of the budget together.
    pub budget: Option<String>,
    /// The unit of the figures.
    pub unit: Unit,
    /// Whether the rule denies its requests. It then has no grants and counts nothing.
    pub deny: bool,
    /// Whether the rule never refuses. The figures are those that would apply if it were enforced.
    pub shadow: bool,
    /// The grants. Clients with equal grants share one entry.
    pub grants: Vec<GrantPromise>,
    /// Whether a request can cost something other than 1.
    pub says_cost: bool,
    /// The requests that pass with a warning.
    pub warned: Option<Warned>,
    /// The block after too many violations.
    pub blocked: Option<Blocked>,
    /// How requests are decided while a shared store fails; `None` if the counters are in the process, or there are none.
    pub on_failure: Option<FailureMode>,
    /// Whether tokens are leased from a shared store, or regions divide the limits; `None` if all decisions are made in
    /// this process, or there are no counters.
    pub consistency: Option<Consistency>,
    /// The length of an epoch, for which regions lend their rates; `None` if the limits are not divided.
    pub epoch_ns: Option<u64>,
    /// Whether there are several regions, and each of them enforces the limits by itself.
    pub is_in_each_region: bool,
    /// The length of a generation of leases; `None` if no tokens are leased.
    pub lease_ns: Option<u64>,
}

/// The unit of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Requests. Each costs 1, unless a caller states another cost.
    Requests,
    /// The cost of requests.
    Cost,
}

/// The promise for some clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantPromise {
    /// The clients.
    pub whose: Vec<GrantedTo>,
    /// The limits, all of which apply. Empty for unlimited.
    pub limits: Vec<LimitPromise>,
}

/// The clients that a grant is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantedTo {
    /// All clients that no other grant of the rule is for.
    Everybody,
    /// The clients of this tier.
    Tier(String),
    /// The keys that match these patterns, one for each part of the key.
    Keys(Vec<String>),
}

/// The promise of one quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitPromise {
    /// The quota.
    pub quota: Quota,
    /// The most that the quota admits.
    pub bound: AdmissionBound,
    /// The longest time for which a request of [`refusal_cost`](LimitPromise::refusal_cost) can be refused, if nothing
    /// else is charged meanwhile; `None` if it depends on other requests, or if no request can pass.
    pub longest_refusal_ns: Option<u64>,
    /// The largest cost that the rule charges and that can be admitted; 1 if callers state the cost.
    pub refusal_cost: u64,
    /// The cost above which a request is always refused; `None` if the rule charges no such cost.
    pub never_above: Option<u64>,
    /// The debt, if costs can be settled above their estimate.
    pub debt: Option<DebtBound>,
    /// The share that each instance grants while the store fails; `None` for a regional limit, whose regions have shares
    /// of their own.
    pub share: Option<FallbackShare>,
    /// The leases of its tokens, or why they are not leased; `None` if the rule is exact.
    pub lease: Option<Result<LeaseBound, NotLeased>>,
    /// The shares of regions; `None` if the limit is not divided.
    pub regional: Option<RegionalBound>,
}

/// The share of a quota that one instance grants while the store fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FallbackShare {
    /// The scaled quota.
    pub quota: Quota,
    /// The most that the scaled quota admits.
    pub bound: AdmissionBound,
    /// The longest time for which a request of [`refusal_cost`](FallbackShare::refusal_cost) can be refused; see
    /// [`LimitPromise::longest_refusal_ns`].
    pub longest_refusal_ns: Option<u64>,
    /// The largest cost that the rule charges and that the share can admit.
    pub refusal_cost: u64,
}

/// The requests above the limit that pass with a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warned {
    /// The number of requests.
    pub first: u64,
    /// The length of the span, which may begin at any time.
    pub within_ns: u64,
}

/// The block of a key after too many violations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The number of requests above the limit after which the next one starts the block.
    pub after: u64,
    /// The length of the span in which they are counted.
    pub within_ns: u64,
    /// The duration of the block.
    pub for_ns: u64,
}

/// Returns the promise of each rule of a policy, in the order of the rules.
#[must_use]
pub fn promises(policy: &Policy) -> Vec<Promise> {
    shown(policy).iter().map(|rule| Promise::of(rule, &policy.store, policy.regions.as_ref())).collect()
}

impl Promise {
    /// Returns the promise of a rule whose counters are in this store, in a policy with these regions.
    #[must_use]
    pub fn of(rule: &Rule, store: &StoreSettings, regions: Option<&Regions>) -> Promise {
        let warned = rule
            .on_limit
            .filter(|on_limit| on_limit.warn_first > 0)
            .map(|on_limit| Warned { first: on_limit.warn_first, within_ns: on_limit.span_ns });
        let blocked = rule.on_limit.and_then(|on_limit| {
            let block = on_limit.block?;
            // A key that still gets warnings is not blocked.
            let after = block.after.max(on_limit.warn_first);
            Some(Blocked { after, within_ns: on_limit.span_ns, for_ns: block.duration_ns })
        });
        let on_failure = match store {
            StoreSettings::Redis(redis) if !rule.denies() => Some(rule.on_failure.unwrap_or(redis.on_failure)),
            StoreSettings::Memory(_) | StoreSettings::Redis(_) => None,
        };
        let share = match (store, on_failure) {
            (StoreSettings::Redis(redis), Some(FailureMode::Local)) => Some(redis.fallback_share),
            _ => None,
        };
        let lease_ns = rule.lease_ns(store);
        let has_server = matches!(store, StoreSettings::Redis(_));
        let division =
            regions.filter(|_| rule.is_regional(store)).map(|regions| RegionalPromise::new(regions, has_server));
        let epoch_ns = division.as_ref().map(RegionalPromise::epoch_ns);
        let consistency = match store {
            _ if division.is_some() => Some(Consistency::Regional),
            StoreSettings::Redis(_) if lease_ns.is_some() => Some(Consistency::Leased),
            StoreSettings::Redis(_) if !rule.denies() => Some(Consistency::Exact),
            StoreSettings::Memory(_) | StoreSettings::Redis(_) => None,
        };
        let is_in_each_region = regions.is_some() && division.is_none() && rule.has_limit();
        let conditions = PromiseContext { rule, warned, share, lease_ns, division };
        Promise {
            rule: rule.name.clone(),
            when: words::conditions(&rule.when),
            key: rule.key.clone(),
            budget: rule.budget.clone(),
            unit: unit(rule),
            deny: rule.denies(),
            shadow: rule.shadow,
            grants: grants(rule).into_iter().map(|(whose, grant)| conditions.grant(whose, grant)).collect(),
            says_cost: rule.cost.source != CostSource::Fixed(1),
            warned,
            blocked,
            on_failure,
            consistency,
            epoch_ns,
            is_in_each_region,
            lease_ns,
        }
    }

    /// Returns the longest time for which a limit or a block can refuse a request, if nothing else is charged meanwhile;
    /// `None` if the rule never refuses, or if it depends on other requests.
    #[must_use]
    pub fn longest_refusal_ns(&self) -> Option<u64> {
        if self.shadow {
            return None;
        }
        let limits = self.grants.iter().flat_map(|grant| &grant.limits);
        let longest =
            limits.map(LimitPromise::longest_with_debt_ns).collect::<Option<Vec<u64>>>()?.into_iter().max()?;
        Some(longest.max(self.blocked.map_or(0, |blocked| blocked.for_ns)))
    }
}

impl LimitPromise {
    /// Returns the longest time for which a request of `refusal_cost` can be refused, including under full debt.
    fn longest_with_debt_ns(&self) -> Option<u64> {
        let owing_ns = self.debt.and_then(|debt| debt.longest_refusal_ns);
        self.longest_refusal_ns.map(|longest_ns| longest_ns.max(owing_ns.unwrap_or(0)))
    }
}

impl GrantPromise {
    /// Whether there is no limit.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        self.limits.is_empty()
    }
}

/// The inputs of a rule's promises other than the quotas.
struct PromiseContext<'a> {
    rule: &'a Rule,
    warned: Option<Warned>,
    share: Option<(u32, u32)>,
    lease_ns: Option<u64>,
    division: Option<RegionalPromise<'a>>,
}

impl PromiseContext<'_> {
    fn grant(&self, whose: Vec<GrantedTo>, grant: &Grant) -> GrantPromise {
        let quotas = grant.quotas();
        let limits = match &self.division {
            Some(division) => self.regional_limits(division, quotas),
            None => {
                let costs = Costs::of(&self.rule.cost, quotas);
                let mut shares = self.shares(quotas).into_iter();
                quotas.iter().map(|quota| self.limit(quota, costs, shares.next())).collect()
            }
        };
        GrantPromise { whose, limits }
    }

    fn limit(&self, quota: &Quota, costs: Costs, share: Option<FallbackShare>) -> LimitPromise {
        let FallbackShare { quota, bound, longest_refusal_ns, refusal_cost } = self.figures(quota, costs);
        let debt = DebtBound::of(self.rule, &quota, refusal_cost);
        let never_above = costs.never_above;
        let lease = self.lease_ns.map(|lease_ns| LeaseBound::of(&quota, lease_ns));
        let regional = None;
        LimitPromise { quota, bound, longest_refusal_ns, refusal_cost, never_above, debt, share, lease, regional }
    }

    /// Returns the limits of a grant that regions divide: the bounds are those of all regions together, and refusals
    /// those of the smallest region that is shown.
    fn regional_limits(&self, division: &RegionalPromise<'_>, quotas: &[Quota]) -> Vec<LimitPromise> {
        let smallest = division.smallest();
        let of_region = quotas.iter().filter_map(|quota| smallest?.quota(quota).ok());
        let costs = Costs::of(&self.rule.cost, &of_region.collect::<Vec<_>>());
        let whole = |share: RegionShare| {
            let share = (share.rate, RegionShare::WHOLE);
            self.shares(&quotas.iter().map(|quota| quota.share(share)).collect::<Vec<_>>())
        };
        let fallbacks: Vec<Vec<FallbackShare>> = division.shown().map(|(_, share)| whole(share)).collect();
        let limit = |(at, quota): (usize, &Quota)| {
            let mut limit = self.limit(quota, costs, None);
            let cost = limit.refusal_cost;
            let refusal = |is_owing| division.longest_refusal_ns(quota, cost, is_owing);
            limit.longest_refusal_ns = costs.largest_admitted.and_then(|_| refusal(false));
            limit.debt = limit.debt.map(|debt| DebtBound { longest_refusal_ns: refusal(true), ..debt });
            let fallbacks = fallbacks.iter().filter_map(|of_region| of_region.get(at).cloned());
            limit.regional = Some(division.bound(quota, fallbacks.collect()));
            limit
        };
        quotas.iter().enumerate().map(limit).collect()
    }

    /// Returns the fallback share of each quota, if the rule has one.
    fn shares(&self, quotas: &[Quota]) -> Vec<FallbackShare> {
        let Some(share) = self.share else { return Vec::new() };
        let shares: Vec<Quota> = quotas.iter().map(|quota| quota.share(share)).collect();
        let costs = Costs::of(&self.rule.cost, &shares);
        shares.iter().map(|quota| self.figures(quota, costs)).collect()
    }

    /// Returns what a quota admits, and how long it refuses the largest cost that can be admitted.
    fn figures(&self, quota: &Quota, costs: Costs) -> FallbackShare {
        let refusal_cost = costs.largest_admitted.unwrap_or(1);
        let bound = AdmissionBound::of(quota, self.warned, refusal_cost);
        let longest_refusal_ns = costs.largest_admitted.and_then(|cost| bound::longest_refusal_ns(quota, cost, false));
        FallbackShare { quota: *quota, bound, longest_refusal_ns, refusal_cost }
    }
}

/// Returns the different grants of a rule, each with the clients that it is for.
fn grants(rule: &Rule) -> Vec<(Vec<GrantedTo>, &Grant)> {
    let mut grants: Vec<(Vec<GrantedTo>, &Grant)> = Vec::new();
    let mut add = |whose: GrantedTo, grant| match grants.iter_mut().find(|(_, known)| *known == grant) {
        Some((all, _)) => all.push(whose),
        None => grants.push((vec![whose], grant)),
    };
    for (tier, grant) in rule.allowance.grants() {
        add(tier.map_or(GrantedTo::Everybody, |tier| GrantedTo::Tier(tier.to_owned())), grant);
    }
    for exception in &rule.overrides {
        let patterns = exception.key.iter().map(|pattern| pattern.0.clone()).collect();
        add(GrantedTo::Keys(patterns), &exception.grant);
    }
    grants
}

fn unit(rule: &Rule) -> Unit {
    match rule.cost.source {
        CostSource::OfTheRequest | CostSource::Fixed(1) if rule.budget.is_none() => Unit::Requests,
        _ => Unit::Cost,
    }
}
