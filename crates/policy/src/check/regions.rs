//! Checks the regions, and that every region can enforce its share of every regional limit.

use std::collections::HashSet;

use tollgate_core::RegionShare;

use super::grants::{capacity, stated_costs};
use super::words::{all_of, did_you_mean};
use super::{Reporter, codes, grants, quoted, rules, store, syntax};
use crate::model::{
    Consistency, Grant, Indivisible, MAX_REGIONS, MAX_SYNC_NS, MAX_WEIGHT, MIN_REGIONS, MIN_SYNC_NS, Policy, Regions,
    Rule, StoreSettings, is_divisible,
};
use crate::promise::limit_words;

const MS_NS: u64 = 1_000_000;

/// What a limit without shares does in several regions, for hints.
const EXACT: &str = "`consistency: exact`, with which each region enforces the whole limit by itself";

pub(super) fn check(policy: &Policy, top: &mut Reporter<'_>) {
    let Some(regions) = &policy.regions else { return without_regions(policy, top) };
    // Shares of invalid weights would only cause further errors.
    let smallest = definition(regions, &mut top.member("regions")).then(|| Smallest::of(regions)).flatten();
    for budget in &policy.budgets {
        let counting =
            Rule { allowance: budget.allowance.clone(), consistency: budget.consistency, ..Rule::new(&budget.name) };
        if counting.is_regional(&policy.store) {
            let mut here = top.at(top.path.member("budgets").member(&budget.name));
            limits(&counting, smallest.as_ref(), &mut here);
        }
    }
    top.member("rules").each(&policy.rules, |rule, here| {
        if !rule.is_regional(&policy.store) {
            return;
        }
        // The limits of a budget were checked there.
        let fits = rule.budget.is_some() || limits(rule, smallest.as_ref(), here);
        if let Some(smallest) = smallest.as_ref().filter(|_| fits) {
            smallest.costs(rule, &mut here.member("cost"));
        }
    });
}

/// Checks the regions themselves. Returns whether they are valid.
fn definition(regions: &Regions, here: &mut Reporter<'_>) -> bool {
    let before = here.problems.len();
    weights(regions, &mut here.member("weights"));
    let own = regions.own.as_deref().filter(|own| !regions.names().any(|name| name == *own));
    if let Some(own) = own {
        let (message, hint) = unknown(own, regions);
        here.member("self").add(codes::UNKNOWN_REGION, message, hint);
    }
    if !(MIN_SYNC_NS..=MAX_SYNC_NS).contains(&regions.sync_ns) || !regions.sync_ns.is_multiple_of(MS_NS) {
        let message = "`sync` must be from 1s to 10min, in whole milliseconds";
        here.member("sync").add(codes::OUT_OF_RANGE, message, "remove `sync` to use the default, 10s");
    }
    store::global(&regions.global, &mut here.member("global"));
    here.problems.len() == before
}

/// Returns the message and the hint about a region that does not exist.
pub(crate) fn unknown(region: &str, regions: &Regions) -> (String, String) {
    let known = format!("known regions: {}", all_of(regions.names()));
    let near = did_you_mean(region, regions.names());
    let hint = if near.is_empty() || near == known { known } else { format!("{near}\n{known}") };
    (format!("unknown region {}", quoted(region)), hint)
}

fn weights(regions: &Regions, here: &mut Reporter<'_>) {
    here.range(regions.weights.len() as u64, MIN_REGIONS..=MAX_REGIONS, "the number of regions");
    let mut known = HashSet::new();
    for ((name, weight), (_, share)) in regions.weights.iter().zip(regions.shares()) {
        let mut here = here.member(name);
        if !syntax::is_rule_name(name) {
            here.add(codes::BAD_NAME, format!("{} is not a valid name of a region", quoted(name)), rules::NAME_HINT);
        }
        if !known.insert(name.as_str()) {
            let message = format!("two regions have the name {}", quoted(name));
            here.add(codes::DUPLICATE_NAME, message, "rename one of them");
        }
        if !(1..=MAX_WEIGHT).contains(weight) {
            here.range(u64::from(*weight), 1..=u64::from(MAX_WEIGHT), "a weight");
        } else if share.rate == 0 {
            let total = regions.total_weight();
            let message = format!("a weight must be at least a thousandth of the sum, {total}, found {weight}");
            here.add(codes::OUT_OF_RANGE, message, "raise it, or lower the weights of the other regions");
        }
    }
}

/// Reports every `consistency: regional` of a policy without regions.
fn without_regions(policy: &Policy, top: &mut Reporter<'_>) {
    let regional = Some(Consistency::Regional);
    let report = |here: &mut Reporter<'_>| {
        let message = "`consistency: regional` needs `regions`, which is missing";
        let hint = "declare them: `regions: { self: eu, weights: { eu: 60, us: 40 }, global: { nodes: [redis.internal:6379] } }`";
        here.member("consistency").add(codes::MISSING_REGIONS, message, hint);
    };
    if let StoreSettings::Redis(redis) = &policy.store
        && Some(redis.consistency) == regional
    {
        report(&mut top.member("store").member("redis"));
    }
    for budget in policy.budgets.iter().filter(|budget| budget.consistency == regional) {
        report(&mut top.at(top.path.member("budgets").member(&budget.name)));
    }
    top.member("rules").each(&policy.rules, |rule, here| {
        // That of a budget was reported there.
        if rule.consistency == regional && rule.budget.is_none() && !rule.denies() {
            report(here);
        }
    });
}

/// Checks that the limits of a regional rule can be divided. Returns whether they can.
fn limits(rule: &Rule, smallest: Option<&Smallest<'_>>, here: &mut Reporter<'_>) -> bool {
    if let Some(reason) = Indivisible::of(rule) {
        indivisible(rule, reason, here);
        return false;
    }
    let before = here.problems.len();
    if let Some(smallest) = smallest {
        grants::each(rule, here, |grant, here, _| smallest.bursts(grant, here));
    }
    here.problems.len() == before
}

/// Reports a rule that cannot be divided. Without an error, each region would admit the whole limit.
fn indivisible(rule: &Rule, reason: Indivisible, here: &mut Reporter<'_>) {
    let kind = rule.grants().flat_map(Grant::quotas).map(|quota| quota.kind()).find(|kind| !is_divisible(*kind));
    let (member, remedy) = match (reason, kind) {
        (Indivisible::Algorithm, Some(kind)) => {
            (format!("`algorithm: {kind}`"), "choose token-bucket or leaky-bucket".to_owned())
        }
        (Indivisible::Shadow, _) => ("`shadow: true`".to_owned(), "remove `shadow: true`".to_owned()),
        _ => (quoted(reason.member()), format!("remove {}", quoted(reason.member()))),
    };
    let (at, which) = match rule.consistency {
        Some(_) => ("consistency", "`consistency: regional`"),
        None => (reason.member(), "the `consistency: regional` of the store"),
    };
    let message = format!("{which} cannot be combined with {member}: {}", reason.why());
    here.member(at).add(codes::NOT_REGIONAL, message, format!("{remedy}, or write {EXACT}"));
}

/// The region with the smallest weight. What fits its share of a limit fits that of every region.
struct Smallest<'p> {
    name: &'p str,
    weight: u32,
    total: u32,
    share: RegionShare,
}

impl<'p> Smallest<'p> {
    fn of(regions: &'p Regions) -> Option<Smallest<'p>> {
        let (name, weight) = regions.weights.iter().min_by_key(|(_, weight)| *weight)?;
        Some(Smallest { name, weight: *weight, total: regions.total_weight(), share: regions.share(name)? })
    }

    /// Returns the smallest burst of which this region has at least `tokens`.
    fn burst_for(&self, tokens: u64) -> u128 {
        (u128::from(tokens) * u128::from(self.total)).div_ceil(u128::from(self.weight.max(1)))
    }

    fn bursts(&self, grant: &Grant, here: &mut Reporter<'_>) {
        for (at, quota) in grant.quotas().iter().enumerate() {
            if self.share.quota(quota).is_err() {
                let (name, weight, total, burst) = (quoted(self.name), self.weight, self.total, quota.burst());
                let message =
                    format!("the share of {name} is {weight}/{total} of a burst of {burst}, less than 1 token");
                let least = self.burst_for(1);
                let text = limit_words(quota);
                let rate = text.split(' ').next().unwrap_or_default();
                let hint = format!(
                    "raise the burst to at least {least}, as in `{rate} burst {least}`, or the weight of {name}; or write {EXACT}"
                );
                here.item(at).add(codes::SMALL_REGION_SHARE, message, hint);
            }
        }
    }

    /// Reports the largest cost that the limit can admit, and that this region never admits.
    fn costs(&self, rule: &Rule, here: &mut Reporter<'_>) {
        let never = |grant: &Grant| {
            let (all, own) = (capacity(grant.quotas()), self.capacity(grant)?);
            let costs = stated_costs(rule).into_iter().filter(move |cost| *cost > own && *cost <= all);
            costs.max().map(|cost| (cost, own))
        };
        if let Some((cost, own)) = rule.grants().filter(|grant| !grant.quotas().is_empty()).filter_map(never).max() {
            let (name, least) = (quoted(self.name), self.burst_for(cost));
            let message = format!("a request can cost {cost}, and the share of {name} never allows more than {own}");
            let hint = format!(
                "lower the cost, raise the burst to at least {least}, or raise the weight of {name}; or write {EXACT}"
            );
            here.add(codes::COST_ABOVE_SHARE, message, hint);
        }
    }

    /// Returns the largest cost that this region can ever allow under a grant; `None` if a limit cannot be divided.
    fn capacity(&self, grant: &Grant) -> Option<u64> {
        let shares = grant.quotas().iter().map(|quota| self.share.quota(quota).ok());
        Some(capacity(&shares.collect::<Option<Vec<_>>>()?))
    }
}
