//! What is legal but likely not what was meant. Only what is certain is said:
//! a warning that is often wrong is not read when it is right.

mod absent;
mod applies;
mod avoid;
mod cost;
mod covered;
mod identity;
mod lists;
mod rule;
mod secrets;
mod store;
mod whole;

use std::collections::BTreeSet;

use super::names::Names;
use super::problems::Problems;
use crate::model::{Allowance, Policy, TierSource};
use crate::problem::Place;

pub(super) fn check(policy: &Policy, problems: &mut Problems) {
    let names = Names::of(policy);
    whole::check(policy, &names, problems);
    lists::check(policy, problems);
    identity::check(policy, &names, problems);
    secrets::check(policy, &names, problems);
    store::check(policy, problems);
    let access = lists::Access::of(policy);
    let tiers = listed_tiers(policy);
    for (at, rule) in policy.rules.iter().enumerate() {
        let place = Place::top().member("rules").item(at);
        applies::check(rule, tiers.as_ref(), &names, &access, &place, problems);
        rule::check(rule, tiers.as_ref(), &place, problems);
        absent::check(rule, policy, &place, problems);
        cost::check(rule, &place, problems);
        if problems.is_full() {
            return;
        }
    }
}

/// More tiers are not compared with every rule.
const MAX_TIERS: usize = 1_000;

/// All the tiers that anybody can have, where they are written down.
fn listed_tiers(policy: &Policy) -> Option<BTreeSet<&str>> {
    let tier = policy.tier.as_ref()?;
    let TierSource::Listed { tiers, .. } = &tier.source else { return None };
    let all: BTreeSet<&str> = tiers.iter().map(|(_, tier)| tier.as_str()).chain([tier.default.as_str()]).collect();
    (all.len() <= MAX_TIERS).then_some(all)
}

/// Where a rule's limit is written down.
fn limit_place(allowance: &Allowance, place: &Place) -> Place {
    match allowance {
        Allowance::Same(grant) => place.member(super::grants::member_of(grant)),
        Allowance::Tiers(tiers) => place.member(super::grants::tiers_member(tiers)),
        Allowance::Deny => place.member("deny"),
    }
}
