use super::names::Names;
use super::problems::Problems;
use super::{codes, patterns, syntax};
use crate::model::{AccessList, Policy};
use crate::problem::Place;

pub(super) fn check(policy: &Policy, names: &Names<'_>, problems: &mut Problems) {
    list(&policy.deny, &Place::top().member("deny"), names, problems);
    list(&policy.allow, &Place::top().member("allow"), names, problems);
}

fn list(list: &AccessList, place: &Place, names: &Names<'_>, problems: &mut Problems) {
    for (name, meant) in &list.identities {
        let place = place.member(name);
        if name == "client_ip" {
            let message = "addresses are compared as networks, not as texts";
            problems.add(codes::MISPLACED_MEMBER, place, message, "put them into the list of networks");
            continue;
        }
        names.check(name, place.clone(), problems);
        syntax::not_empty(meant, "text", &place, problems);
        patterns::check_each(name, meant, names, &place, problems);
    }
}
