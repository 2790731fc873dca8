//! Which counts are lost when a policy is replaced.

use std::collections::BTreeMap;
use std::fmt;

use tollgate_core::AlgorithmKind;

use crate::compiled::CompiledPolicy;

/// A description of counts that start from zero, or that are no longer used, when one policy replaces another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterChange(String);

impl fmt::Display for CounterChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the counts that change when the policy `now` replaces `before`. A rule with the same name and key keeps its
/// counts and is not listed, whatever its limit or algorithm.
#[must_use]
pub fn counter_changes(before: &CompiledPolicy, now: &CompiledPolicy) -> Vec<CounterChange> {
    let mut changes = Vec::new();
    for (at, rule) in (0..).zip(now.rules()).filter(|(at, rule)| rule.counts_as == *at) {
        let name = now.counters_name(at);
        let what = if rule.budget.is_some() { "budget" } else { "rule" };
        let Some(old) = before.counters_named(name).filter(|old| before.counters_name(*old) == name) else {
            // A rule that denies has no counts.
            if !rule.deny {
                changes.push(format!("{what} `{name}` is new and starts with no counts"));
            }
            continue;
        };
        let (key_before, key_now) = (before.key_names(old), now.key_names(at));
        let denied = rule.deny || before.rules().get(old as usize).is_some_and(|rule| rule.deny);
        if key_before != key_now && !denied {
            let (has, had) = (key(&key_now), key(&key_before));
            changes.push(format!("{what} `{name}` starts with no counts: it has {has} and had {had}"));
            continue;
        }
        let (counters_before, counters_now) = (counters(before, old), counters(now, at));
        for (counter, permits) in &counters_now {
            match counters_before.get(counter) {
                Some(before) if before != permits => changes.push(format!(
                    "{what} `{name}` starts with no counts: rates and concurrency have separate counters"
                )),
                // A rule that had no limit has no counts to keep.
                None if !counters_before.is_empty() => changes.push(format!(
                    "{what} `{name}`: the limit counted as `{counter}` is new and starts with no counts"
                )),
                _ => {}
            }
        }
        for counter in counters_before.keys().filter(|counter| !counters_now.contains_key(*counter)) {
            changes.push(format!(
                "{what} `{name}`: the limit counted as `{counter}` was removed, and its counts are no longer used"
            ));
        }
    }
    for (at, rule) in (0..).zip(before.rules()).filter(|(at, rule)| !rule.deny && rule.counts_as == *at) {
        let name = before.counters_name(at);
        let what = if rule.budget.is_some() { "budget" } else { "rule" };
        match now.counters_named(name).map(|found| now.counters_name(found)) {
            Some(counters) if counters == name => {}
            Some(budget) => changes.push(format!(
                "rule `{name}` now charges the budget `{budget}`, and its own counts are no longer used"
            )),
            None => changes.push(format!("{what} `{name}` was removed, and its counts are no longer used")),
        }
    }
    changes.into_iter().map(CounterChange).collect()
}

/// Formats the identities of a key.
fn key(names: &[&str]) -> String {
    if names.is_empty() { "no key".to_owned() } else { format!("key {}", names.join(", ")) }
}

/// Returns the counters of a rule, and whether each of them counts permits.
fn counters(policy: &CompiledPolicy, rule: u32) -> BTreeMap<&str, bool> {
    let quotas = policy.quotas().iter().filter(|planned| planned.rule == rule);
    quotas.map(|planned| (planned.scope.as_str(), planned.quota.kind() == AlgorithmKind::Concurrency)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::{PolicyBuilder, RuleBuilder, rule};
    use crate::model::Consistency;

    fn changes(before: &[RuleBuilder], now: &[RuleBuilder]) -> Vec<String> {
        let compile = |rules: &[RuleBuilder]| {
            let policy = rules.iter().cloned().fold(PolicyBuilder::default(), PolicyBuilder::rule);
            CompiledPolicy::new(&policy.build().unwrap()).unwrap()
        };
        counter_changes(&compile(before), &compile(now)).iter().map(ToString::to_string).collect()
    }

    fn per_user() -> RuleBuilder {
        rule("api").per("user")
    }

    #[test]
    fn changed_limit_and_algorithm_keep_their_counts() {
        let before = [per_user().limit("10/h")];
        assert_eq!(changes(&before, &before), [""; 0]);
        assert_eq!(changes(&before, &[per_user().limit("20/min")]), [""; 0]);
        let window = per_user().limit("10/h").algorithm(AlgorithmKind::FixedWindow);
        assert_eq!(changes(&before, &[window]), [""; 0]);
        assert_eq!(changes(&before, &[per_user().limit("10/h").consistency(Consistency::Leased)]), [""; 0]);
        let list = per_user().limit("10/h").limit("100/day");
        assert_eq!(
            changes(&before, std::slice::from_ref(&list)),
            ["rule `api`: the limit counted as `api/1day` is new and starts with no counts"]
        );
        assert_eq!(
            changes(&[list], &before),
            ["rule `api`: the limit counted as `api/1day` was removed, and its counts are no longer used"]
        );
    }

    #[test]
    fn renamed_rule_other_key_and_permits_start_with_no_counts() {
        let before = [per_user().limit("10/h")];
        assert_eq!(
            changes(&before, &[rule("web").per("user").limit("10/h")]),
            [
                "rule `web` is new and starts with no counts",
                "rule `api` was removed, and its counts are no longer used"
            ]
        );
        assert_eq!(
            changes(&before, &[rule("api").per("client_ip").limit("10/h")]),
            ["rule `api` starts with no counts: it has key client_ip and had key user"]
        );
        assert_eq!(
            changes(&before, &[rule("api").limit("10/h")]),
            ["rule `api` starts with no counts: it has no key and had key user"]
        );
        assert_eq!(
            changes(&before, &[per_user().concurrency(3)]),
            ["rule `api` starts with no counts: rates and concurrency have separate counters"]
        );
    }
}
