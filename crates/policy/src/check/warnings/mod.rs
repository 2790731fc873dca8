//! What is legal but likely not what was meant. Only what is certain is said:
//! a warning that is often wrong is not read when it is right.

mod absent;
mod applies;
mod avoid;
mod covered;
mod identity;
mod networks;
mod rule;
mod store;

use std::collections::BTreeSet;

use super::{Names, Reporter, codes, quoted};
use crate::model::{Policy, TierSource};

pub(super) fn check(policy: &Policy, top: &mut Reporter<'_>) {
    let names = Names::of(policy);
    whole(policy, &names, &mut top.member("rules"));
    networks::check(policy, top);
    identity::check(policy, &names, top);
    store::check(policy, top);
    let access = networks::Access::of(policy);
    let tiers = listed_tiers(policy);
    top.member("rules").each(&policy.rules, |rule, here| {
        applies::check(rule, tiers.as_ref(), &names, &access, here);
        rule::check(rule, tiers.as_ref(), here);
        absent::check(rule, policy, &mut here.member("when"));
        rule::cost(rule, here);
    });
}

/// What the rules come to, all together.
fn whole<'p>(policy: &'p Policy, names: &Names<'p>, rules: &mut Reporter<'_>) {
    if policy.rules.is_empty() {
        let hint = "add a rule, such as `- { name: per-ip, key: client_ip, limit: 60/min }`";
        rules.add(codes::NO_RULES, "there are no rules, so nobody has a limit", hint);
    } else if policy.rules.iter().all(|rule| rule.shadow) {
        let message = "every rule is a shadow: all is counted, nobody is refused";
        rules.add(codes::ONLY_SHADOW, message, "remove `shadow: true` from the rules that are to hold");
    } else {
        avoid::check(policy, names, rules);
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
