//! Warnings and notes: settings that are valid but likely mistakes.
//!
//! A check reports only what is certain. Warnings that are often wrong would be ignored.

mod applies;
mod avoid;
mod consistency;
mod identity;
mod networks;
mod rule;

use std::collections::BTreeSet;

use super::{IdentityNames, Reporter, codes, quoted};
use crate::model::{MemorySettings, Policy, Secret, StoreSettings, TierSource};

pub(super) fn check(policy: &Policy, top: &mut Reporter<'_>) {
    let names = IdentityNames::of(policy);
    whole(policy, &names, &mut top.member("rules"));
    networks::check(policy, top);
    let used: BTreeSet<&str> = policy.rules.iter().filter_map(|rule| rule.budget.as_deref()).collect();
    for budget in &policy.budgets {
        if !used.contains(budget.name.as_str()) {
            let mut here = top.at(top.path.member("budgets").member(&budget.name));
            let message = format!("no rule uses the budget {}", quoted(&budget.name));
            here.add(codes::UNUSED_BUDGET, message, "add `budget: NAME` to a rule, or remove the budget");
        }
    }
    identity::check(policy, &names, top);
    store(policy, top);
    consistency::check(policy, top);
    let access = networks::AccessNetworks::of(policy);
    let tiers = listed_tiers(policy);
    top.member("rules").each(&policy.rules, |rule, here| {
        applies::check(rule, tiers.as_ref(), &names, &access, here);
        rule::check(rule, tiers.as_ref(), here);
        rule::absent(rule, policy, &mut here.member("when"));
        rule::cost(rule, here);
    });
}

/// Checks the rules as a whole.
fn whole<'p>(policy: &'p Policy, names: &IdentityNames<'p>, rules: &mut Reporter<'_>) {
    if policy.rules.is_empty() {
        let hint = "add a rule, such as `- { name: per-ip, key: client_ip, limit: 60/min }`";
        rules.add(codes::NO_RULES, "the policy has no rules, so it limits no client", hint);
    } else if policy.rules.iter().all(|rule| rule.shadow) {
        let message = "every rule is a shadow rule: requests are counted and never refused";
        rules.add(codes::ONLY_SHADOW, message, "remove `shadow: true` from the rules to enforce");
    } else {
        avoid::check(policy, names, rules);
    }
}

/// The most tiers that are compared with every rule.
const MAX_TIERS: usize = 1_000;

/// Returns all tiers that clients can have, if the policy lists them.
fn listed_tiers(policy: &Policy) -> Option<BTreeSet<&str>> {
    let tier = policy.tier.as_ref()?;
    let TierSource::Listed { tiers, .. } = &tier.source else { return None };
    let all: BTreeSet<&str> = tiers.iter().map(|(_, tier)| tier.as_str()).chain([tier.default.as_str()]).collect();
    (all.len() <= MAX_TIERS).then_some(all)
}

const MINUTE_NS: u64 = 60_000_000_000;

/// The longest snapshot interval without a warning. A snapshot is cheap, so a longer interval is never needed.
const LONG_INTERVAL_NS: u64 = 10 * MINUTE_NS;

/// Warns about rare snapshots and missing passwords.
fn store(policy: &Policy, top: &mut Reporter<'_>) {
    match &policy.store {
        StoreSettings::Memory(memory) => snapshots(memory, &mut top.member("store").member("memory")),
        StoreSettings::Redis(redis) => {
            redis.password.iter().for_each(|secret| password(secret, &mut top.member("store").member("redis")));
        }
    }
    let global = policy.regions.iter().flat_map(|regions| &regions.global.password);
    global.for_each(|secret| password(secret, &mut top.member("regions").member("global")));
}

fn snapshots(memory: &MemorySettings, here: &mut Reporter<'_>) {
    let Some(snapshot) = memory.snapshot.as_ref().filter(|snapshot| snapshot.every_ns > LONG_INTERVAL_NS) else {
        return;
    };
    let minutes = snapshot.every_ns / MINUTE_NS;
    let message =
        format!("a killed process loses the counts of up to {minutes} minutes, and their limits are refilled");
    here.member("every").add(codes::RARE_SNAPSHOTS, message, "lower `every`, as in `every: 30s`");
}

/// Warns about a missing password. It is not an error, because a policy may be checked on another machine.
fn password(secret: &Secret, here: &mut Reporter<'_>) {
    let (member, message) = match secret {
        Secret::Environment(name) if !is_set(name) => (
            "password_env",
            format!("the environment variable {} is not set on this machine, or is empty", quoted(name)),
        ),
        Secret::File(path) => match std::fs::metadata(path) {
            Ok(_) => return,
            Err(error) => {
                ("password_file", format!("the file {} cannot be read on this machine: {error}", quoted(path)))
            }
        },
        Secret::Environment(_) => return,
    };
    let hint = "provide it where the service runs: the service does not start without it";
    here.member(member).add(codes::MISSING_PASSWORD, message, hint);
}

/// Whether a variable is set and not empty. A name with `=` or NUL would panic or find nothing.
fn is_set(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0']) && std::env::var_os(name).is_some_and(|value| !value.is_empty())
}
