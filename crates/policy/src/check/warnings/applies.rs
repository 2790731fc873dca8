//! Rules that no request can meet.

use std::collections::BTreeSet;

use super::networks::{Access, NetworkSet};
use super::{Names, Reporter, codes, quoted};
use crate::check::rules::MAX_KEY_PARTS;
use crate::check::words::nearest;
use crate::model::{Condition, IdentitySource, Networks, Rule, TIER, TextPattern, When};
use crate::problem::Place;

/// The methods that HTTP and its common extensions know.
const METHODS: [&str; 17] = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "CONNECT",
    "OPTIONS",
    "TRACE",
    "PATCH",
    "QUERY",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
];
const MORE_METHODS: [&str; 6] = ["PURGE", "REPORT", "SEARCH", "LINK", "UNLINK", "BAN"];

pub(super) fn check(
    rule: &Rule,
    tiers: Option<&BTreeSet<&str>>,
    names: &Names<'_>,
    access: &Access,
    here: &mut Reporter<'_>,
) {
    for (at, method) in rule.when.methods.iter().enumerate() {
        if !METHODS.contains(&method.as_str()) && !MORE_METHODS.contains(&method.as_str()) {
            let message = format!("{} is no method that HTTP knows", quoted(method));
            let hint = nearest(method, METHODS).map_or_else(String::new, |meant| format!("did you mean {meant}?"));
            here.member("when").member("method").item(at).add(codes::UNKNOWN_METHOD, message, hint);
        }
    }
    let when = here.place.member("when");
    let never = absent_but_needed(rule, names, &when)
        .or_else(|| always_present(rule, names, &when))
        .or_else(|| contradicts_method(rule, &when))
        .or_else(|| no_such_tier(rule, tiers, &when))
        .or_else(|| outside(rule, access, &when))
        .or_else(|| too_short(rule, names, &here.place))
        .or_else(|| names_no_entry(rule, &when));
    if let Some((place, why)) = never {
        let hint = "change one of the two, or remove the rule";
        here.at(place).add(codes::NEVER_APPLIES, format!("this rule can never apply: {why}"), hint);
    }
}

/// Longer lists and texts are taken to fit: what is said here must be certain, and found quickly.
const MAX_COMPARED: usize = 256;

type Never = Option<(Place, String)>;

/// What the key needs, `when` asks to be absent.
fn absent_but_needed(rule: &Rule, names: &Names<'_>, when: &Place) -> Never {
    if rule.key.len() > MAX_KEY_PARTS {
        return None;
    }
    let absent = |condition: &Condition| *condition == Condition::Absent;
    for (name, _) in rule.when.identities.iter().filter(|(_, condition)| absent(condition)) {
        if rule.key.contains(name) {
            let why = format!("it counts by {}, which is to be absent", quoted(name));
            return Some((when.member("identity").member(name), why));
        }
    }
    for (header, _) in rule.when.headers.iter().filter(|(_, condition)| absent(condition)) {
        let is_from =
            |name: &&String| matches!(names.source(name), Some(IdentitySource::Header(from)) if from == header);
        if let Some(name) = rule.key.iter().find(is_from) {
            let why = format!("it counts by {}, which comes from a header that is to be absent", quoted(name));
            return Some((when.member("headers").member(header), why));
        }
    }
    None
}

/// What everybody has cannot be absent.
fn always_present(rule: &Rule, names: &Names<'_>, when: &Place) -> Never {
    let everybody_has = |name: &str| name == TIER || matches!(names.source(name), Some(IdentitySource::Value(_)));
    let (name, _) =
        rule.when.identities.iter().find(|(name, condition)| *condition == Condition::Absent && everybody_has(name))?;
    Some((when.member("identity").member(name), format!("every request has {}", quoted(name))))
}

/// `method` and `identity: { method: .. }` ask for different ones.
fn contradicts_method(rule: &Rule, when: &Place) -> Never {
    let (name, condition) = rule.when.identities.iter().find(|(name, _)| name == "method")?;
    let Condition::OneOf(patterns) = condition else { return None };
    let methods = &rule.when.methods;
    // A rule for GET is one for HEAD as well.
    let may_be = |method: &String| may_match(patterns, method) || (method == "GET" && may_match(patterns, "HEAD"));
    let fits = methods.len() > MAX_COMPARED || methods.iter().any(may_be);
    (!methods.is_empty() && !fits)
        .then(|| (when.member("identity").member(name), "`method` asks for other methods".to_owned()))
}

/// Where all tiers are written down, no other can be asked for.
fn no_such_tier(rule: &Rule, tiers: Option<&BTreeSet<&str>>, when: &Place) -> Never {
    let (name, condition) = rule.when.identities.iter().find(|(name, _)| name == TIER)?;
    let Condition::OneOf(patterns) = condition else { return None };
    (!tiers?.iter().any(|tier| may_match(patterns, tier)))
        .then(|| (when.member("identity").member(name), "nobody has such a tier".to_owned()))
}

/// Whether one of the patterns means the text, or it would take long to tell.
fn may_match(patterns: &[TextPattern], text: &str) -> bool {
    let is_short = |text: &str| text.len() <= MAX_COMPARED;
    let matches = |pattern: &TextPattern| !is_short(&pattern.0) || pattern.matches(text.as_bytes());
    patterns.len() > MAX_COMPARED || !is_short(text) || patterns.iter().any(matches)
}

/// Whoever comes from there is denied, or allowed, before any rule.
fn outside(rule: &Rule, access: &Access, when: &Place) -> Never {
    let Some(Networks::Among(networks)) = &rule.when.network else { return None };
    let is_decided = |list: &str, set: &NetworkSet| {
        let all = !networks.is_empty() && networks.iter().all(|network| set.covers(*network));
        all.then(|| (when.member("network"), format!("`{list}` has all of these networks, and comes before the rules")))
    };
    is_decided("deny", &access.denied).or_else(|| is_decided("allow", &access.allowed))
}

/// The key needs a segment that none of the paths has.
fn too_short(rule: &Rule, names: &Names<'_>, place: &Place) -> Never {
    let paths = &rule.when.paths;
    let needed = |name: &String| match names.source(name) {
        Some(IdentitySource::PathSegment(segment)) => Some(*segment),
        _ => None,
    };
    let (at, segment) = rule.key.iter().enumerate().find_map(|(at, name)| Some((at, needed(name)?)))?;
    let is_short = |path: &String| {
        !path.ends_with("/*") && path.split('/').filter(|segment| !segment.is_empty()).count() < segment
    };
    (!paths.is_empty() && paths.iter().all(is_short))
        .then(|| (place.member("key").item(at), format!("none of its paths has a segment number {segment}")))
}

/// A gateway sends no descriptor without entries.
fn names_no_entry(rule: &Rule, when: &Place) -> Never {
    // Beside its domains, a rule names only entries.
    let unnamed = When { domains: rule.when.domains.clone(), exact_entries: true, ..When::default() };
    (rule.key.is_empty() && rule.when == unnamed)
        .then(|| (when.member("entries"), "it names no entry, and asks for no others".to_owned()))
}
