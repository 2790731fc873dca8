//! Notes rules that stay exact although leases are asked for, and what regions need.

use super::{Reporter, codes};
use crate::model::{Consistency, Policy, Rule, StaysExact, StoreSettings};

pub(super) fn check(policy: &Policy, top: &mut Reporter<'_>) {
    regions(policy, top);
    match &policy.store {
        StoreSettings::Memory(_) => in_memory(policy, top),
        StoreSettings::Redis(redis) => {
            top.member("rules").each(&policy.rules, |rule, here| stays_exact(rule, redis.consistency, here));
        }
    }
}

/// Warns about regions without a regional rule.
fn regions(policy: &Policy, top: &mut Reporter<'_>) {
    let is_used = policy.rules.iter().any(|rule| rule.is_regional(&policy.store));
    if policy.regions.is_some() && !is_used {
        let message = "no rule is regional, so each region enforces every limit by itself";
        let hint = "add `consistency: regional` to the rules whose limits the regions share, or remove `regions`";
        top.member("regions").add(codes::UNUSED_REGIONS, message, hint);
    }
}

fn in_memory(policy: &Policy, top: &mut Reporter<'_>) {
    for budget in &policy.budgets {
        note(budget.consistency, &mut top.at(top.path.member("budgets").member(&budget.name)));
    }
    top.member("rules").each(&policy.rules, |rule, here| {
        // That of a budget was noted there.
        if rule.budget.is_none() {
            note(rule.consistency, here);
        }
    });
}

/// Notes the effect of a consistency in the memory store.
fn note(consistency: Option<Consistency>, here: &mut Reporter<'_>) {
    let mut here = here.member("consistency");
    match consistency {
        Some(Consistency::Leased) => {
            let message = "`consistency: leased` has no effect with `store: memory`, whose decisions are exact";
            here.add(codes::LEASED_IN_MEMORY, message, "remove it, or set `store: { redis: .. }`");
        }
        Some(Consistency::Regional) => {
            let message = "with `store: memory` a region must be one instance, which enforces the whole share of its region, and forgets its counters when it restarts";
            let hint = "set `store: { redis: .. }` if the region has several instances, or is to keep its counters";
            here.add(codes::REGIONAL_IN_MEMORY, message, hint);
        }
        Some(Consistency::Exact) | None => {}
    }
}

fn stays_exact(rule: &Rule, by_default: Consistency, here: &mut Reporter<'_>) {
    if rule.consistency.unwrap_or(by_default) != Consistency::Leased {
        return;
    }
    let Some(reason) = StaysExact::of(rule) else { return };
    let message = format!("this rule stays exact, although `consistency: leased` is set: {}", reason.why());
    let hint = match reason {
        StaysExact::Shadow => "its tokens are leased when it is enforced, without `shadow: true`",
        _ => "add `consistency: exact` to the rule if this is intended",
    };
    here.member(reason.member()).add(codes::STAYS_EXACT, message, hint);
}
