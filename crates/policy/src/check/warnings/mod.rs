//! What is legal but likely not what was meant. Only what is certain is said:
//! a warning that is often wrong is not read when it is right.

mod applies;
mod avoid;
mod identity;
mod networks;
mod rule;

use std::collections::BTreeSet;

use super::{Names, Reporter, codes, quoted};
use crate::model::{MemorySettings, Policy, Secret, StoreSettings, TierSource};

pub(super) fn check(policy: &Policy, top: &mut Reporter<'_>) {
    let names = Names::of(policy);
    whole(policy, &names, &mut top.member("rules"));
    networks::check(policy, top);
    identity::check(policy, &names, top);
    store(policy, top);
    let access = networks::Access::of(policy);
    let tiers = listed_tiers(policy);
    top.member("rules").each(&policy.rules, |rule, here| {
        applies::check(rule, tiers.as_ref(), &names, &access, here);
        rule::check(rule, tiers.as_ref(), here);
        rule::absent(rule, policy, &mut here.member("when"));
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

const MINUTE_NS: u64 = 60_000_000_000;

/// A snapshot costs next to nothing, so a longer interval than this is never needed.
const LONG_NS: u64 = 10 * MINUTE_NS;

/// What the store would forget, and what it would not find.
fn store(policy: &Policy, top: &mut Reporter<'_>) {
    match &policy.store {
        StoreSettings::Memory(memory) => snapshots(memory, &mut top.member("store").member("memory")),
        StoreSettings::Redis(redis) => {
            redis.password.iter().for_each(|secret| password(secret, &mut top.member("store").member("redis")));
        }
    }
}

fn snapshots(memory: &MemorySettings, here: &mut Reporter<'_>) {
    let Some(snapshot) = memory.snapshot.as_ref().filter(|snapshot| snapshot.every_ns > LONG_NS) else { return };
    let minutes = snapshot.every_ns / MINUTE_NS;
    let message = format!("a process that is killed gives back what was used within up to {minutes} minutes");
    here.member("every").add(codes::RARE_SNAPSHOTS, message, "write it more often: `every: 30s`");
}

/// No error: a policy may be checked on another machine than the one that it is for.
fn password(secret: &Secret, here: &mut Reporter<'_>) {
    let (member, message) = match secret {
        Secret::Environment(name) if !is_set(name) => {
            ("password_env", format!("the environment variable {} is not set here, or is empty", quoted(name)))
        }
        Secret::File(path) => match std::fs::metadata(path) {
            Ok(_) => return,
            Err(error) => ("password_file", format!("the file {} cannot be read here: {error}", quoted(path))),
        },
        Secret::Environment(_) => return,
    };
    let hint = "the service does not start without it: it must be there where it runs";
    here.member(member).add(codes::MISSING_PASSWORD, message, hint);
}

/// Some names would panic or find nothing.
fn is_set(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0']) && std::env::var_os(name).is_some_and(|value| !value.is_empty())
}
