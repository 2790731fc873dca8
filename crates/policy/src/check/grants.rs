//! How much rules grant.

use std::collections::HashSet;

use tollgate_core::AlgorithmKind;

use super::periods::quotas;
use super::problems::Problems;
use super::words::{all_of, quoted};
use super::{codes, denies, syntax};
use crate::model::{Allowance, Grant, Policy, Rule};
use crate::problem::Place;

pub(super) fn check(rule: &Rule, policy: &Policy, place: &Place, problems: &mut Problems) {
    match &rule.allowance {
        Allowance::Same(same) => grant(same, &place.member(member_of(same)), problems),
        Allowance::Tiers(of_tiers) => tiers(of_tiers, policy, &place.member(tiers_member(of_tiers)), problems),
        Allowance::Deny => denies::check(rule, place, problems),
    }
}

/// The member in which a grant is written down.
pub(super) fn member_of(grant: &Grant) -> &'static str {
    let is_concurrency = quotas(grant).iter().any(|quota| quota.kind() == AlgorithmKind::Concurrency);
    if is_concurrency { "concurrency" } else { "limit" }
}

/// The member in which the grants of tiers are written down.
pub(super) fn tiers_member(tiers: &[(String, Grant)]) -> &'static str {
    if tiers.iter().any(|(_, grant)| member_of(grant) == "concurrency") { "concurrency" } else { "tiers" }
}

/// One grant by itself.
pub(super) fn grant(grant: &Grant, place: &Place, problems: &mut Problems) {
    let Grant::Limited(quotas) = grant else { return };
    syntax::not_empty(quotas, "rate", place, problems);
    let mut periods = HashSet::new();
    for (at, quota) in quotas.iter().enumerate() {
        if !periods.insert((quota.period_ns(), quota.kind() == AlgorithmKind::Concurrency)) {
            let message = "two limits of the same period hold at once, so only the smaller one counts";
            problems.add(
                codes::EQUAL_PERIODS,
                place.item(at),
                message,
                "keep one of the two, or give one another period",
            );
        }
    }
}

fn tiers(tiers: &[(String, Grant)], policy: &Policy, place: &Place, problems: &mut Problems) {
    syntax::not_empty(tiers, "tier", place, problems);
    let mut known = HashSet::new();
    for (name, own) in tiers {
        let place = place.member(name);
        syntax::text(name, "a tier", place.clone(), problems);
        grant(own, &place, problems);
        if !known.insert(name.as_str()) {
            let message = format!("the tier {} is there twice", quoted(name));
            problems.add(codes::DUPLICATE_NAME, place, message, "keep one of the two");
        }
    }
    let Some(tier) = &policy.tier else {
        let hint =
            "say under `identity:` where a client's tier comes from, as in `tier: { header: X-Tier, default: free }`";
        let message = "a limit by tier needs to know the client's tier, and there is no identity `tier`";
        problems.add(codes::TIERS_WITHOUT_TIER, place.clone(), message, hint);
        return;
    };
    if !known.contains(tier.default.as_str()) && !tiers.is_empty() {
        let default = quoted(&tier.default);
        let message = format!("the default tier {default} is missing here, so most clients would have no limit");
        let there = all_of(tiers.iter().take(10).map(|(name, _)| name.as_str()));
        let hint = format!("add {default} beside {there}; `unlimited` is a limit too");
        problems.add(codes::DEFAULT_TIER_MISSING, place.clone(), message, hint);
    }
}
