//! What is legal but likely not what was meant. Only what is certain is said:
//! a warning that is often wrong is not read when it is right.

mod applies;
mod cost;
mod identity;
mod lists;
mod rule;
mod whole;

use super::names::Names;
use super::problems::Problems;
use crate::model::{Allowance, Policy};
use crate::problem::Place;

pub(super) fn check(policy: &Policy, problems: &mut Problems) {
    let names = Names::of(policy);
    identity::check(policy, &names, problems);
    lists::check(policy, problems);
    whole::check(policy, &names, problems);
    let access = lists::Access::of(policy);
    for (at, rule) in policy.rules.iter().enumerate() {
        let place = Place::top().member("rules").item(at);
        applies::check(rule, policy, &names, &access, &place, problems);
        rule::check(rule, policy, &place, problems);
        cost::check(rule, &place, problems);
        if problems.is_full() {
            return;
        }
    }
}

/// Where a rule's limit is written down.
fn limit_place(allowance: &Allowance, place: &Place) -> Place {
    match allowance {
        Allowance::Same(grant) => place.member(super::grants::member_of(grant)),
        Allowance::Tiers(tiers) => place.member(super::grants::tiers_member(tiers)),
    }
}
