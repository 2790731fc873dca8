//! What the rules come to, all together.

use super::super::codes;
use super::super::names::Names;
use super::super::periods::{grants, quotas};
use super::super::problems::Problems;
use super::super::words::all_of;
use crate::model::{IdentitySource, Policy, Rule};
use crate::problem::Place;

/// `first` of `first` of `first` .. is not followed further.
const MAX_STEPS: usize = 8;

pub(super) fn check(policy: &Policy, names: &Names<'_>, problems: &mut Problems) {
    let place = Place::top().member("rules");
    if policy.rules.is_empty() {
        let hint = "add a rule, such as `- { name: per-ip, key: client_ip, limit: 60/min }`";
        problems.add(codes::NO_RULES, place, "there are no rules, so nobody has a limit", hint);
        return;
    }
    if policy.rules.iter().all(|rule| rule.shadow) {
        let message = "every rule is a shadow: all is counted, nobody is refused";
        problems.add(codes::ONLY_SHADOW, place, message, "remove `shadow: true` from the rules that are to hold");
        return;
    }
    let enforcing = || policy.rules.iter().filter(|rule| !rule.shadow && limits(rule));
    let can_be_avoided = |rule: &Rule| rule.key.iter().any(|name| can_be_left_out(name, names, MAX_STEPS));
    if enforcing().next().is_some() && enforcing().all(can_be_avoided) {
        let mut optional: Vec<&str> = enforcing()
            .flat_map(|rule| &rule.key)
            .map(String::as_str)
            .filter(|name| can_be_left_out(name, names, MAX_STEPS))
            .take(100)
            .collect();
        optional.sort_unstable();
        optional.dedup();
        let message = format!("a request without {} meets no limit at all", all_of(optional.into_iter().take(10)));
        let hint = "add a rule by `client_ip`, or count by the first that is present: `first: [user, client_ip]`";
        problems.add(codes::LIMITS_CAN_BE_AVOIDED, place, message, hint);
    }
}

fn limits(rule: &Rule) -> bool {
    grants(&rule.allowance).any(|grant| !quotas(grant).is_empty())
}

/// Whether whoever sends a request can do it without this identity.
fn can_be_left_out(name: &str, names: &Names<'_>, steps: usize) -> bool {
    match names.source(name) {
        // Built in, or the tier, which everybody has.
        None => false,
        Some(IdentitySource::Peer | IdentitySource::Value(_)) => false,
        Some(IdentitySource::First(others)) => {
            steps > 0
                && !others.is_empty()
                && others.iter().take(64).all(|other| can_be_left_out(other, names, steps - 1))
        }
        Some(_) => true,
    }
}
