//! Notes rules that stay exact although leases are asked for.

use super::{Reporter, codes};
use crate::model::{Consistency, Policy, Rule, StaysExact, StoreSettings};

pub(super) fn check(policy: &Policy, top: &mut Reporter<'_>) {
    match &policy.store {
        StoreSettings::Memory(_) => in_memory(policy, top),
        StoreSettings::Redis(redis) => {
            top.member("rules").each(&policy.rules, |rule, here| stays_exact(rule, redis.consistency, here));
        }
    }
}

fn in_memory(policy: &Policy, top: &mut Reporter<'_>) {
    let note = |here: &mut Reporter<'_>| {
        let message = "`consistency: leased` has no effect with `store: memory`, whose decisions are exact";
        here.member("consistency").add(codes::LEASED_IN_MEMORY, message, "remove it, or set `store: { redis: .. }`");
    };
    let leased = Some(Consistency::Leased);
    for budget in policy.budgets.iter().filter(|budget| budget.consistency == leased) {
        note(&mut top.at(top.path.member("budgets").member(&budget.name)));
    }
    top.member("rules").each(&policy.rules, |rule, here| {
        // That of a budget was noted there.
        if rule.consistency == leased && rule.budget.is_none() {
            note(here);
        }
    });
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
