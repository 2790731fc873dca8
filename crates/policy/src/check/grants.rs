//! Checks grants and costs, and computes the largest cost that can ever pass.

use std::collections::HashSet;

use tollgate_core::{Algorithm, AlgorithmKind, Bucket, BucketState, MAX_AMOUNT, Quota, Tick};

use super::words::all_of;
use super::{Reporter, codes, members, quoted, syntax};
use crate::compiled::PathPattern;
use crate::model::{Allowance, Cost, CostSource, Grant, Paths, Policy, Rule, TIER};

pub(super) fn check(rule: &Rule, policy: &Policy, here: &mut Reporter<'_>) {
    let mut limit = here.member(member_of(&rule.allowance));
    match &rule.allowance {
        Allowance::Same(same) => grant(same, &mut limit),
        Allowance::Tiers(of_tiers) => tiers(of_tiers, policy, &mut limit),
        Allowance::Deny => beside_deny(rule, here),
    }
}

/// Returns the member that sets the grants of a rule.
pub(super) fn member_of(allowance: &Allowance) -> &'static str {
    let is_concurrency = allowance.quotas().any(|quota| quota.kind() == AlgorithmKind::Concurrency);
    match allowance {
        _ if is_concurrency => "concurrency",
        Allowance::Same(_) => "limit",
        Allowance::Tiers(_) => "tiers",
        Allowance::Deny => "deny",
    }
}

/// Calls `visit` with each grant of a rule, a reporter for its path, and its name in messages.
pub(super) fn each(rule: &Rule, here: &mut Reporter<'_>, mut visit: impl FnMut(&Grant, &mut Reporter<'_>, &str)) {
    let mut limit = here.member(member_of(&rule.allowance));
    for (tier, grant) in rule.allowance.grants() {
        match tier {
            Some(tier) => visit(grant, &mut limit.member(tier), &format!("the limit of the tier {}", quoted(tier))),
            None => visit(grant, &mut limit, "the limit"),
        }
    }
    for (at, own) in rule.overrides.iter().enumerate() {
        visit(&own.grant, &mut here.member("overrides").item(at), "this override");
    }
}

/// Checks one grant.
pub(super) fn grant(grant: &Grant, here: &mut Reporter<'_>) {
    let Grant::Limited(quotas) = grant else { return };
    here.not_empty(quotas, "rate");
    let mut periods = HashSet::new();
    for (at, quota) in quotas.iter().enumerate() {
        if !periods.insert((quota.period_ns(), quota.kind() == AlgorithmKind::Concurrency)) {
            let message = "two limits have the same period, so only the smaller one has an effect";
            let hint = "keep one of the two, or change the period of one";
            here.item(at).add(codes::EQUAL_PERIODS, message, hint);
        }
    }
}

fn tiers(tiers: &[(String, Grant)], policy: &Policy, here: &mut Reporter<'_>) {
    here.not_empty(tiers, "tier");
    let mut known = HashSet::new();
    for (name, own) in tiers {
        let mut here = here.member(name);
        here.text(name, "a tier");
        grant(own, &mut here);
        if !known.insert(name.as_str()) {
            here.add(
                codes::DUPLICATE_NAME,
                format!("the tier {} is listed twice", quoted(name)),
                "keep one of the two",
            );
        }
    }
    let Some(tier) = &policy.tier else {
        // Another check reports `tier` as a declared identity.
        if policy.identities.iter().any(|identity| identity.name == TIER) {
            return;
        }
        let hint = "declare the tier under `identity:`, as in `tier: { header: X-Tier, default: free }`";
        let message = "limits by tier need the identity `tier`, which is not declared";
        return here.add(codes::TIERS_WITHOUT_TIER, message, hint);
    };
    if !known.contains(tier.default.as_str()) && !tiers.is_empty() {
        let default = quoted(&tier.default);
        let message = format!(
            "the default tier {default} is missing: clients whose tier is absent or unknown would have no limit"
        );
        let there = all_of(tiers.iter().take(10).map(|(name, _)| name.as_str()));
        let hint = format!("add a limit for {default}, which may be `unlimited`; found {there}");
        here.add(codes::DEFAULT_TIER_MISSING, message, hint);
    }
}

/// Reports members that cannot be combined with `deny`: a rule that denies has no counter.
fn beside_deny(rule: &Rule, here: &mut Reporter<'_>) {
    let members = [
        ("key", !rule.key.is_empty()),
        ("cost", rule.cost != Cost::default()),
        ("on_limit", rule.on_limit.is_some()),
        ("overrides", !rule.overrides.is_empty()),
        ("on_failure", rule.on_failure.is_some()),
        ("consistency", rule.consistency.is_some()),
    ];
    for (member, _) in members.into_iter().filter(|(_, is_there)| *is_there) {
        let (message, hint) = members::beside_deny(member);
        here.member(member).add(codes::MISPLACED_MEMBER, message, hint);
    }
}

pub(super) fn cost(rule: &Rule, paths: Paths, here: &mut Reporter<'_>) {
    let amount = |value: u64, here: &mut Reporter<'_>| here.range(value, 1..=MAX_AMOUNT, "a cost");
    amount(rule.cost.max, &mut here.member("max"));
    match &rule.cost.source {
        CostSource::OfTheRequest => {}
        CostSource::Fixed(cost) => amount(*cost, here),
        CostSource::Estimate(cost) => amount(*cost, &mut here.member("estimate")),
        CostSource::Header { default, name } => {
            amount(*default, &mut here.member("default"));
            here.member("header").header(name);
        }
        CostSource::Methods { costs, default } => {
            amount(*default, &mut here.member("default"));
            for (method, cost) in costs {
                amount(*cost, &mut here.member("method").member(method));
                here.member("method").member(method).method(method);
            }
        }
        CostSource::Paths { costs, default } => {
            amount(*default, &mut here.member("default"));
            let mut here = here.member("path");
            let mut known = HashSet::new();
            for (pattern, cost) in costs {
                let mut here = here.member(pattern);
                amount(*cost, &mut here);
                syntax::check_path(pattern, &mut here);
                if !known.insert(PathPattern::read(pattern, paths).text) {
                    let message = format!("the path {} has two costs", quoted(pattern));
                    here.add(
                        codes::DUPLICATE_NAME,
                        message,
                        "keep one of the two: paths are normalised before they are compared",
                    );
                }
            }
        }
    }
    if let Some(name) = &rule.cost.settled_by {
        here.member("settle").header(name);
    }
    never_fits(rule, here);
}

/// Reports a cost that exceeds every grant of the rule. Every request would be refused.
fn never_fits(rule: &Rule, here: &mut Reporter<'_>) {
    let (least, _) = costs(rule);
    let largest = rule.grants().map(|grant| capacity(grant.quotas())).max();
    if let Some(largest) = largest.filter(|largest| least > *largest) {
        let message = format!("every request costs at least {least}, and the limit never allows more than {largest}");
        let hint = "lower the cost, or raise the limit or its burst, as in 60/min burst 100";
        here.add(codes::COST_NEVER_FITS, message, hint);
    }
}

/// Returns the largest cost that all of these quotas can ever allow.
pub(crate) fn capacity(quotas: &[Quota]) -> u64 {
    quotas.iter().map(capacity_of).min().unwrap_or(u64::MAX)
}

/// Returns the largest cost that a quota can ever allow.
pub(crate) fn capacity_of(quota: &Quota) -> u64 {
    let of_bucket = |bucket: Bucket| bucket.peek(&BucketState::default(), 0, 0).limit;
    Bucket::new(quota, Tick::Nanosecond).map_or(quota.amount(), of_bucket)
}

/// Returns the costs that the policy itself states for requests of a rule.
pub(super) fn stated_costs(rule: &Rule) -> Vec<u64> {
    match &rule.cost.source {
        CostSource::OfTheRequest => vec![1],
        CostSource::Fixed(cost) | CostSource::Estimate(cost) => vec![*cost],
        CostSource::Header { default, .. } => vec![*default],
        CostSource::Methods { costs, default } | CostSource::Paths { costs, default } => {
            costs.iter().map(|(_, cost)| *cost).chain([*default]).collect()
        }
    }
}

/// Returns the smallest cost of a request under a rule, and the largest cost that the policy itself states.
pub(super) fn costs(rule: &Rule) -> (u64, u64) {
    match &rule.cost.source {
        CostSource::OfTheRequest => (1, 1),
        CostSource::Fixed(cost) | CostSource::Estimate(cost) => (*cost, *cost),
        // A request can state a cost of 1, whatever the default is.
        CostSource::Header { default, .. } => (1, *default),
        CostSource::Methods { costs, default } | CostSource::Paths { costs, default } => {
            let all = || costs.iter().map(|(_, cost)| *cost).chain([*default]);
            (all().min().unwrap_or(1), all().max().unwrap_or(1))
        }
    }
}
