//! What the rules come to, all together.

use std::collections::{BTreeSet, HashMap};

use super::super::codes;
use super::super::names::Names;
use super::super::periods::{grants, quotas};
use super::super::problems::Problems;
use super::super::words::all_of;
use crate::model::{IdentitySource, Policy, Rule};
use crate::problem::Place;

/// `first` of `first` of `first` .. is not followed further.
const MAX_STEPS: usize = 32;

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
    let enforcing = || policy.rules.iter().filter(|rule| !rule.shadow && limits(rule));
    let mut optional = Optional { names, known: HashMap::new() };
    let all = enforcing().all(|rule| rule.key.iter().any(|name| optional.can_be_left_out(name, MAX_STEPS)));
    if all && enforcing().next().is_some() {
        let keys = enforcing().flat_map(|rule| &rule.key).map(String::as_str);
        let left_out: BTreeSet<&str> = keys.filter(|name| optional.can_be_left_out(name, MAX_STEPS)).collect();
        let message = format!("a request without {} meets no limit at all", all_of(left_out.into_iter().take(10)));
        let hint = "add a rule by `client_ip`, or count by the first that is present: `first: [user, client_ip]`";
        problems.add(codes::LIMITS_CAN_BE_AVOIDED, place, message, hint);
    }
}

fn limits(rule: &Rule) -> bool {
    grants(&rule.allowance).any(|grant| !quotas(grant).is_empty())
}

/// Which identities whoever sends a request can do without. Each is looked at
/// once, as `first` may lead to the same one on many ways.
struct Optional<'p, 'n> {
    names: &'n Names<'p>,
    known: HashMap<&'p str, bool>,
}

impl<'p> Optional<'p, '_> {
    fn can_be_left_out(&mut self, name: &'p str, steps: usize) -> bool {
        if let Some(known) = self.known.get(name) {
            return *known;
        }
        let answer = match self.names.source(name) {
            // Built in, or the tier, which everybody has.
            None | Some(IdentitySource::Peer | IdentitySource::Value(_)) => false,
            Some(IdentitySource::First(others)) => {
                steps > 0 && !others.is_empty() && others.iter().all(|other| self.can_be_left_out(other, steps - 1))
            }
            Some(_) => true,
        };
        self.known.insert(name, answer);
        answer
    }
}
