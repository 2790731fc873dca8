//! Warns about rules that can never apply.

use std::collections::BTreeSet;

use super::networks::{AccessNetworks, NetworkSet};
use super::{IdentityNames, Reporter, codes, quoted};
use crate::check::rules::MAX_KEY_PARTS;
use crate::check::words::nearest;
use crate::model::{Condition, IdentitySource, Networks, Rule, TIER, TextPattern, When};
use crate::problem::PolicyPath;

/// The methods of HTTP and of its common extensions. Hints suggest them.
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
/// Further known methods, which hints do not suggest.
const MORE_METHODS: [&str; 6] = ["PURGE", "REPORT", "SEARCH", "LINK", "UNLINK", "BAN"];

pub(super) fn check(
    rule: &Rule,
    tiers: Option<&BTreeSet<&str>>,
    names: &IdentityNames<'_>,
    access: &AccessNetworks,
    here: &mut Reporter<'_>,
) {
    for (at, method) in rule.when.methods.iter().enumerate() {
        if !METHODS.contains(&method.as_str()) && !MORE_METHODS.contains(&method.as_str()) {
            let message = format!("{} is not a known HTTP method", quoted(method));
            let hint = nearest(method, METHODS).map_or_else(String::new, |near| format!("did you mean {near}?"));
            here.member("when").member("method").item(at).add(codes::UNKNOWN_METHOD, message, hint);
        }
    }
    let when = here.path.member("when");
    let never = absent_but_needed(rule, names, &when)
        .or_else(|| always_present(rule, names, &when))
        .or_else(|| contradicts_method(rule, &when))
        .or_else(|| no_such_tier(rule, tiers, &when))
        .or_else(|| decided_before(rule, access, &when))
        .or_else(|| too_short(rule, names, &here.path))
        .or_else(|| names_no_entry(rule, &when));
    if let Some((path, why)) = never {
        let hint = "change one of the conflicting parts, or remove the rule";
        here.at(path).add(codes::NEVER_APPLIES, format!("this rule can never apply: {why}"), hint);
    }
}

/// The longest lists and texts that are compared. Longer ones are assumed to match: a warning must be certain, and
/// found quickly.
const MAX_COMPARED: usize = 256;

type NeverApplies = Option<(PolicyPath, String)>;

/// The key needs an identity that `when` requires to be absent.
fn absent_but_needed(rule: &Rule, names: &IdentityNames<'_>, when: &PolicyPath) -> NeverApplies {
    if rule.key.len() > MAX_KEY_PARTS {
        return None;
    }
    let absent = |condition: &Condition| *condition == Condition::Absent;
    for (name, _) in rule.when.identities.iter().filter(|(_, condition)| absent(condition)) {
        if rule.key.contains(name) {
            let why = format!("its key contains {}, which `when` requires to be absent", quoted(name));
            return Some((when.member("identity").member(name), why));
        }
    }
    for (header, _) in rule.when.headers.iter().filter(|(_, condition)| absent(condition)) {
        let is_from =
            |name: &&String| matches!(names.source(name), Some(IdentitySource::Header(from)) if from == header);
        if let Some(name) = rule.key.iter().find(is_from) {
            let why = format!(
                "its key contains {}, which is read from a header that `when` requires to be absent",
                quoted(name)
            );
            return Some((when.member("headers").member(header), why));
        }
    }
    None
}

/// `when` requires an identity to be absent that every request has.
fn always_present(rule: &Rule, names: &IdentityNames<'_>, when: &PolicyPath) -> NeverApplies {
    let is_always_present = |name: &str| name == TIER || matches!(names.source(name), Some(IdentitySource::Value(_)));
    let (name, _) = rule
        .when
        .identities
        .iter()
        .find(|(name, condition)| *condition == Condition::Absent && is_always_present(name))?;
    Some((when.member("identity").member(name), format!("every request has {}", quoted(name))))
}

/// `method` and `identity: { method: .. }` list different methods.
fn contradicts_method(rule: &Rule, when: &PolicyPath) -> NeverApplies {
    let (name, condition) = rule.when.identities.iter().find(|(name, _)| name == "method")?;
    let Condition::OneOf(patterns) = condition else { return None };
    let methods = &rule.when.methods;
    // A rule for GET includes HEAD.
    let may_be = |method: &String| may_match(patterns, method) || (method == "GET" && may_match(patterns, "HEAD"));
    let fits = methods.len() > MAX_COMPARED || methods.iter().any(may_be);
    (!methods.is_empty() && !fits)
        .then(|| (when.member("identity").member(name), "`method` lists other methods".to_owned()))
}

/// The policy lists all tiers, and `when` requires another one.
fn no_such_tier(rule: &Rule, tiers: Option<&BTreeSet<&str>>, when: &PolicyPath) -> NeverApplies {
    let (name, condition) = rule.when.identities.iter().find(|(name, _)| name == TIER)?;
    let Condition::OneOf(patterns) = condition else { return None };
    (!tiers?.iter().any(|tier| may_match(patterns, tier)))
        .then(|| (when.member("identity").member(name), "no client can have such a tier".to_owned()))
}

/// Whether a pattern matches the text, or the comparison would take long.
fn may_match(patterns: &[TextPattern], text: &str) -> bool {
    let is_short = |text: &str| text.len() <= MAX_COMPARED;
    let matches = |pattern: &TextPattern| !is_short(&pattern.0) || pattern.matches(text.as_bytes());
    patterns.len() > MAX_COMPARED || !is_short(text) || patterns.iter().any(matches)
}

/// All networks of the rule are denied, or allowed, before any rule.
fn decided_before(rule: &Rule, access: &AccessNetworks, when: &PolicyPath) -> NeverApplies {
    let Some(Networks::Among(networks)) = &rule.when.network else { return None };
    let is_decided = |list: &str, set: &NetworkSet| {
        let all = !networks.is_empty() && networks.iter().all(|network| set.covers(*network));
        all.then(|| {
            (
                when.member("network"),
                format!("`{list}` contains all of these networks, and is applied before the rules"),
            )
        })
    };
    is_decided("deny", &access.denied).or_else(|| is_decided("allow", &access.allowed))
}

/// The key needs a segment that none of the paths has.
fn too_short(rule: &Rule, names: &IdentityNames<'_>, path: &PolicyPath) -> NeverApplies {
    let paths = &rule.when.paths;
    let needed = |name: &String| match names.source(name) {
        Some(IdentitySource::PathSegment(segment)) => Some(*segment),
        _ => None,
    };
    let (at, segment) = rule.key.iter().enumerate().find_map(|(at, name)| Some((at, needed(name)?)))?;
    let is_short = |path: &String| {
        !path.ends_with("/*") && path.split('/').filter(|segment| !segment.is_empty()).count() < segment
    };
    (!paths.is_empty() && paths.iter().all(is_short)).then(|| {
        (path.member("key").item(at), format!("its key needs segment {segment} of the path, and its paths are shorter"))
    })
}

/// The rule requires exactly the entries that it names, and names none. Gateways send no descriptor without entries.
fn names_no_entry(rule: &Rule, when: &PolicyPath) -> NeverApplies {
    // All members of such a rule other than `domains` would name entries.
    let unnamed = When { domains: rule.when.domains.clone(), exact_entries: true, ..When::default() };
    (rule.key.is_empty() && rule.when == unnamed).then(|| {
        (when.member("entries"), "`entries: exact` needs at least one entry, and the rule names none".to_owned())
    })
}
