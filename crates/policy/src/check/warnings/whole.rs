//! What the rules come to, all together.

use super::super::codes;
use super::super::names::Names;
use super::super::problems::Problems;
use super::avoid;
use crate::model::Policy;
use crate::problem::Place;

pub(super) fn check<'p>(policy: &'p Policy, names: &Names<'p>, problems: &mut Problems) {
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
    avoid::check(policy, names, problems);
}
