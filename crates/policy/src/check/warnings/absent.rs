//! Rules that deny every value but some, which a client escapes by sending none.

use super::{Reporter, codes, quoted};
use crate::model::{BUILT_IN_IDENTITIES, Condition, Policy, Rule, When};

pub(super) fn check(rule: &Rule, policy: &Policy, when: &mut Reporter<'_>) {
    if !rule.denies() {
        return;
    }
    for (name, condition) in &rule.when.headers {
        let is_denied = denied_if_absent(policy, |when| &when.headers, |known| known.eq_ignore_ascii_case(name));
        if excludes(condition) && !is_denied {
            tell("header", "headers", name, when);
        }
    }
    for (name, condition) in &rule.when.identities {
        let is_denied = denied_if_absent(policy, |when| &when.identities, |known| known == name);
        // Every request has a method, a path and an address, or nothing can be said about it.
        if excludes(condition) && !is_denied && !BUILT_IN_IDENTITIES.contains(&name.as_str()) {
            tell("identity", "identity", name, when);
        }
    }
}

fn excludes(condition: &Condition) -> bool {
    matches!(condition, Condition::OneOfBut { these, .. } if these.is_empty())
}

/// Whether any rule denies requests that lack it.
fn denied_if_absent(
    policy: &Policy,
    conditions: impl Fn(&When) -> &Vec<(String, Condition)>,
    is_meant: impl Fn(&str) -> bool,
) -> bool {
    let asks = |rule: &&Rule| {
        conditions(&rule.when).iter().any(|(name, condition)| is_meant(name) && *condition == Condition::Absent)
    };
    policy.rules.iter().filter(|rule| rule.denies()).any(|rule| asks(&rule))
}

fn tell(what: &str, member: &str, name: &str, when: &mut Reporter<'_>) {
    let message = format!("a request without the {what} {} is not denied: `not` is about other values", quoted(name));
    let hint = format!("add a rule that denies those: `when: {{ {member}: {{ {name}: false }} }}`");
    when.member(member).member(name).add(codes::ABSENT_NOT_DENIED, message, hint);
}
