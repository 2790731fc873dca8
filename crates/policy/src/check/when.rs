use super::names::Names;
use super::problems::Problems;
use super::{patterns, syntax};
use crate::model::{Condition, Networks, When};
use crate::problem::Place;

pub(super) fn check(when: &When, place: &Place, names: &Names<'_>, problems: &mut Problems) {
    for (at, method) in when.methods.iter().enumerate() {
        syntax::method(method, place.member("method").item(at), problems);
    }
    for (at, host) in when.hosts.iter().enumerate() {
        syntax::host(host, place.member("host").item(at), problems);
    }
    for (at, path) in when.paths.iter().enumerate() {
        syntax::path(path, place.member("path").item(at), problems);
    }
    for (name, condition) in &when.headers {
        let place = place.member("headers").member(name);
        syntax::header(name, place.clone(), problems);
        not_empty(condition, &place, problems);
    }
    for (name, condition) in &when.identities {
        let place = place.member("identity").member(name);
        names.check(name, place.clone(), problems);
        not_empty(condition, &place, problems);
        match condition {
            Condition::Present | Condition::Absent => {}
            Condition::OneOf(these) => patterns::check_each(name, these, names, &place, problems),
            Condition::OneOfBut { these, but_not } => {
                patterns::check_each(name, these, names, &place.member("is"), problems);
                patterns::check_each(name, but_not, names, &place.member("not"), problems);
            }
        }
    }
    for (at, domain) in when.domains.iter().enumerate() {
        syntax::text(domain, "a domain", place.member("domain").item(at), problems);
    }
    if let Some(Networks::Among(networks)) = &when.network {
        syntax::not_empty(networks, "network", &place.member("network"), problems);
    }
}

fn not_empty(condition: &Condition, place: &Place, problems: &mut Problems) {
    if let Condition::OneOf(patterns) | Condition::OneOfBut { but_not: patterns, .. } = condition {
        syntax::not_empty(patterns, "text", place, problems);
    }
}
