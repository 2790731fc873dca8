//! Which counts a changed policy does not go on with.

use std::collections::BTreeMap;
use std::fmt;

use tollgate_core::AlgorithmKind;

use crate::compiled::CompiledPolicy;

/// Counts that start from zero, or that are no longer used, where one policy takes the place of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterChange {
    /// The rule's name.
    pub rule: String,
    /// What becomes of its counts.
    pub kind: CounterChangeKind,
}

/// What becomes of a rule's counts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CounterChangeKind {
    /// No rule had this name before.
    NewRule,
    /// No rule has this name any more.
    RemovedRule,
    /// Keys are made of other identities.
    OtherKey {
        /// The identities before.
        before: Vec<String>,
        /// The identities now.
        now: Vec<String>,
    },
    /// It limits how many requests are in flight, and limited a rate before, or the reverse.
    RateOrPermits,
    /// One limit of its list has no counter yet.
    NewLimit {
        /// The counter's name: the rule and the limit's period.
        counter: String,
    },
    /// The counter of one limit of its list is no longer used.
    RemovedLimit {
        /// The counter's name: the rule and the limit's period.
        counter: String,
    },
}

/// What becomes of counts when `now` takes the place of `before`. A rule of the
/// same name and key goes on with its counts and is not listed, whatever its
/// limit or algorithm.
#[must_use]
pub fn counter_changes(before: &CompiledPolicy, now: &CompiledPolicy) -> Vec<CounterChange> {
    let mut changes = Vec::new();
    for (at, rule) in (0..).zip(now.rules()) {
        let mut note = |kind| changes.push(CounterChange { rule: rule.name.to_string(), kind });
        let Some(old) = before.rule_named(&rule.name) else {
            // A rule that denies has no counts.
            if !rule.deny {
                note(CounterChangeKind::NewRule);
            }
            continue;
        };
        let names =
            |plan: &CompiledPolicy, rule: u32| plan.key_names(rule).into_iter().map(str::to_owned).collect::<Vec<_>>();
        let (key_before, key_now) = (names(before, old), names(now, at));
        let denied = rule.deny || before.rules().get(old as usize).is_some_and(|rule| rule.deny);
        if key_before != key_now && !denied {
            note(CounterChangeKind::OtherKey { before: key_before, now: key_now });
            continue;
        }
        let (counters_before, counters_now) = (counters(before, old), counters(now, at));
        for (counter, permits) in &counters_now {
            match counters_before.get(counter) {
                Some(before) if before != permits => note(CounterChangeKind::RateOrPermits),
                // A rule that had no limit at all has nothing to go on with.
                None if !counters_before.is_empty() => {
                    note(CounterChangeKind::NewLimit { counter: (*counter).to_owned() });
                }
                _ => {}
            }
        }
        let gone = counters_before.keys().filter(|counter| !counters_now.contains_key(*counter));
        gone.for_each(|counter| note(CounterChangeKind::RemovedLimit { counter: (*counter).to_owned() }));
    }
    let is_gone = |name: &str| now.rule_named(name).is_none();
    let gone = before.rules().iter().filter(|rule| !rule.deny && is_gone(&rule.name));
    changes
        .extend(gone.map(|rule| CounterChange { rule: rule.name.to_string(), kind: CounterChangeKind::RemovedRule }));
    changes
}

/// The counters of a rule, and whether each of them counts permits.
fn counters(plan: &CompiledPolicy, rule: u32) -> BTreeMap<&str, bool> {
    let own = plan.quotas().iter().filter(|planned| planned.rule == rule);
    own.map(|planned| (planned.scope.as_str(), planned.quota.kind() == AlgorithmKind::Concurrency)).collect()
}

impl fmt::Display for CounterChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = &self.rule;
        match &self.kind {
            CounterChangeKind::NewRule => write!(f, "rule `{rule}` is new and starts with no counts"),
            CounterChangeKind::RemovedRule => write!(f, "rule `{rule}` is gone, and its counts are not used any more"),
            CounterChangeKind::OtherKey { before, now } => {
                let list = |names: &[String]| {
                    if names.is_empty() { "no key".to_owned() } else { format!("key {}", names.join(", ")) }
                };
                write!(f, "rule `{rule}` starts with no counts: it has {} and had {}", list(now), list(before))
            }
            CounterChangeKind::RateOrPermits => {
                write!(f, "rule `{rule}` starts with no counts: rates and concurrency are counted apart")
            }
            CounterChangeKind::NewLimit { counter } => {
                write!(f, "rule `{rule}`: the limit counted as `{counter}` is new and starts with no counts")
            }
            CounterChangeKind::RemovedLimit { counter } => {
                write!(
                    f,
                    "rule `{rule}`: the limit counted as `{counter}` is gone, and its counts are not used any more"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::{PolicyBuilder, RuleBuilder, rule};

    fn changes(before: &[RuleBuilder], now: &[RuleBuilder]) -> Vec<String> {
        let plan = |rules: &[RuleBuilder]| {
            let policy = rules.iter().cloned().fold(PolicyBuilder::default(), PolicyBuilder::rule);
            CompiledPolicy::new(&policy.build().unwrap()).unwrap()
        };
        counter_changes(&plan(before), &plan(now)).iter().map(ToString::to_string).collect()
    }

    fn per_user() -> RuleBuilder {
        rule("api").per("user")
    }

    #[test]
    fn changed_limit_algorithm_and_list_go_on_with_their_counts() {
        let before = [per_user().limit("10/h")];
        assert_eq!(changes(&before, &before), [""; 0]);
        assert_eq!(changes(&before, &[per_user().limit("20/min")]), [""; 0]);
        let window = per_user().limit("10/h").algorithm(AlgorithmKind::FixedWindow);
        assert_eq!(changes(&before, &[window]), [""; 0]);
        let list = per_user().limit("10/h").limit("100/day");
        assert_eq!(
            changes(&before, std::slice::from_ref(&list)),
            ["rule `api`: the limit counted as `api/1day` is new and starts with no counts"]
        );
        assert_eq!(
            changes(&[list], &before),
            ["rule `api`: the limit counted as `api/1day` is gone, and its counts are not used any more"]
        );
    }

    #[test]
    fn renamed_rule_other_key_and_permits_start_with_no_counts() {
        let before = [per_user().limit("10/h")];
        assert_eq!(
            changes(&before, &[rule("web").per("user").limit("10/h")]),
            ["rule `web` is new and starts with no counts", "rule `api` is gone, and its counts are not used any more"]
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
            ["rule `api` starts with no counts: rates and concurrency are counted apart"]
        );
    }
}
