//! Warns about limits that clients can avoid.
//!
//! A rule does not apply to a request that lacks an identity of its key. That is safe only if another rule limits or
//! denies the same requests by a value that the client can neither omit nor choose. Such a rule is called a safeguard
//! here. Safeguards must cover all requests of the rule: each of its paths, methods and hosts.
//!
//! A rule whose key contains the path or the host has a new counter for each one that a client invents. It needs a
//! safeguard too, and is none.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::identity::is_client_chosen;
use super::{IdentityNames, Reporter, codes, quoted};
use crate::check::words::all_of;
use crate::model::{Allowance, Condition, IdentitySource, Policy, Rule, TIER, TierSource, When, is_parameter};

/// The deepest nesting of `first` lists that is followed.
const MAX_STEPS: usize = 32;

const PATH: &str = "path";
const HOST: &str = "host";

/// The most comparisons of rules. Beyond them, a rule is assumed to be covered: a warning must be certain.
const MAX_COMPARISONS: usize = 500_000;

pub(super) fn check<'p>(policy: &'p Policy, names: &IdentityNames<'p>, rules: &mut Reporter<'_>) {
    let mut clients = ClientControl { policy, names, chosen: HashMap::new() };
    let replaced = clients.replaced_at_will(rules);
    let limiting = || policy.rules.iter().enumerate().filter(|(_, rule)| !rule.shadow && limits(rule));
    let permanent = policy.rules.iter().filter(|rule| !replaced.contains(rule.name.as_str()));
    let safeguards: Vec<&Rule> = permanent.filter(|rule| clients.is_safeguard(rule)).collect();
    let has_limit = safeguards.iter().any(|rule| !rule.denies());
    let mut comparisons_left = MAX_COMPARISONS;
    let (mut uncovered, mut invented) = (Vec::new(), Vec::new());
    let mut is_all = true;
    for (at, rule) in limiting() {
        let optional = clients.optional_parts(rule);
        let is_open = |part: &&(usize, &str)| match is_for_gateway(rule) {
            // Which other descriptors a gateway sends is unknown here.
            true => !has_limit,
            false => !clients.is_covered(rule, part.1, &safeguards, &mut comparisons_left),
        };
        let open: Vec<(usize, &str)> = optional.iter().filter(is_open).copied().collect();
        is_all &= !open.is_empty();
        uncovered.extend(open.into_iter().map(|(part, name)| (at, part, name)));
        let parts = rule.key.iter().enumerate().filter(|_| !is_for_gateway(rule));
        for (part, name) in parts {
            if let Some(text) = clients.invented_text(rule, name)
                && !clients.is_covered(rule, name, &safeguards, &mut comparisons_left)
            {
                invented.push((at, part, text));
            }
        }
    }
    for (at, part, text) in invented {
        let message = format!(
            "clients get a new counter with each {text} that they invent, and no rule limits all of these requests by a value that clients cannot choose"
        );
        let first = match text {
            PATH => {
                "count by `route` and select paths with `when: { path: .. }`: all that match a pattern share a counter"
            }
            _ => "select hosts with `when: { host: .. }`",
        };
        let hint = format!("{first}\nor add a rule with `key: client_ip` for the same requests");
        rules.item(at).member("key").item(part).add(codes::LIMITS_CAN_BE_AVOIDED, message, hint);
    }
    if uncovered.is_empty() {
        return;
    }
    let first = "count by the first identity that is present: `first: [user, client_ip]`";
    if is_all {
        let names: BTreeSet<&str> = uncovered.iter().map(|(_, _, name)| *name).collect();
        let message = format!("a request without {} has no limit at all", all_of(names.into_iter().take(10)));
        return rules.add(
            codes::LIMITS_CAN_BE_AVOIDED,
            message,
            format!("add a rule with `key: client_ip`, or {first}"),
        );
    }
    for (at, part, name) in uncovered {
        let message = format!(
            "a request without {} avoids this rule, and no rule limits all of these requests by a value that clients cannot choose",
            quoted(name)
        );
        let hint = format!(
            "add a rule with `key: client_ip` for the same requests, or {first}\nor deny such requests: `when: {{ identity: {{ {name}: false }} }}` with `deny: true`"
        );
        rules.item(at).member("key").item(part).add(codes::LIMITS_CAN_BE_AVOIDED, message, hint);
    }
}

fn limits(rule: &Rule) -> bool {
    rule.allowance.quotas().next().is_some()
}

/// Whether a rule applies only to the descriptors of a gateway.
fn is_for_gateway(rule: &Rule) -> bool {
    rule.when.exact_entries || !rule.when.domains.is_empty()
}

/// Which identities of a policy clients can omit or choose. Results are cached, because many `first` lists may lead to
/// the same identity.
struct ClientControl<'p, 'n> {
    policy: &'p Policy,
    names: &'n IdentityNames<'p>,
    /// The results of `can_be_chosen`.
    chosen: HashMap<&'p str, bool>,
}

impl<'p> ClientControl<'p, '_> {
    /// Returns the identities of a rule's key that its requests can omit, with their indexes.
    fn optional_parts(&self, rule: &'p Rule) -> Vec<(usize, &'p str)> {
        let parts = rule.key.iter().map(String::as_str).enumerate();
        let is_optional = |name| self.can_be_omitted(name) && !has_segment(rule, self.names.source(name));
        parts.filter(|(_, name)| is_optional(name)).collect()
    }

    /// Whether clients can omit an identity.
    fn can_be_omitted(&self, name: &str) -> bool {
        let found = self.names.expand_lists(std::iter::once(name));
        // Every request has the built-in identities and the tier.
        let is_always_present =
            |name| matches!(self.names.source(name), None | Some(IdentitySource::Peer | IdentitySource::Value(_)));
        !found.is_empty() && !found.into_iter().any(is_always_present)
    }

    /// Returns whether a part of a rule's key is the path or the host, and the rule applies to any number of them.
    fn invented_text(&self, rule: &Rule, name: &str) -> Option<&'static str> {
        let found = self.names.expand_lists(std::iter::once(name));
        let is_exact_path = |path: &String| !split(path).1 && !split(path).0.into_iter().any(is_any);
        let is_open = |text: &&str| match *text {
            PATH => rule.when.paths.is_empty() || !rule.when.paths.iter().all(is_exact_path),
            _ => rule.when.hosts.is_empty() || rule.when.hosts.iter().any(|host| host.starts_with("*.")),
        };
        [PATH, HOST].into_iter().find(|text| found.contains(text) && is_open(text))
    }

    /// Whether clients can choose the value of an identity freely, and so start a new counter at will.
    fn can_be_chosen(&mut self, name: &'p str, steps: usize) -> bool {
        if let Some(known) = self.chosen.get(name) {
            return *known;
        }
        let is_chosen = match self.names.declared(name) {
            Some(identity) if identity.trusted => false,
            Some(identity) => match &identity.source {
                IdentitySource::First(others) => {
                    steps > 0 && others.iter().any(|other| self.can_be_chosen(other, steps - 1))
                }
                source => is_client_chosen(source),
            },
            None if name == TIER => self.policy.tier.as_ref().is_some_and(|tier| match &tier.source {
                _ if tier.trusted => false,
                TierSource::Direct(source) => is_client_chosen(source),
                TierSource::Listed { by, .. } => steps > 0 && self.can_be_chosen(by, steps - 1),
            }),
            None => false,
        };
        self.chosen.insert(name, is_chosen);
        is_chosen
    }

    /// Whether a rule denies, or limits every client to which its conditions apply.
    fn is_safeguard(&mut self, rule: &'p Rule) -> bool {
        if rule.shadow || is_for_gateway(rule) {
            return false;
        }
        let default = self.policy.tier.as_ref().map(|tier| tier.default.as_str());
        let is_limited = match &rule.allowance {
            Allowance::Deny => return true,
            Allowance::Same(grant) => !grant.quotas().is_empty(),
            Allowance::Tiers(tiers) => {
                tiers.iter().any(|(tier, grant)| Some(tier.as_str()) == default && !grant.quotas().is_empty())
            }
        };
        // A rule without paths has no route where no pattern matches.
        let has_route = |name: &&String| *name != "route" || !rule.when.paths.is_empty();
        is_limited
            && self.optional_parts(rule).is_empty()
            && rule.key.iter().all(|name| {
                has_route(&name) && self.invented_text(rule, name).is_none() && !self.can_be_chosen(name, MAX_STEPS)
            })
    }

    /// Whether safeguards limit or deny all requests of a rule that lack this identity.
    fn is_covered(&self, rule: &Rule, lacking: &str, safeguards: &[&Rule], comparisons_left: &mut usize) -> bool {
        let Some(classes) = request_classes(&rule.when) else { return true };
        let comparisons = safeguards.len().saturating_mul(classes.len());
        if *comparisons_left < comparisons {
            return true;
        }
        *comparisons_left -= comparisons;
        let header = match self.names.source(lacking) {
            Some(IdentitySource::Header(header)) => Some(header.as_str()),
            _ => None,
        };
        let lacking = MissingIdentity { identity: lacking, header };
        let applies = |other: &&&Rule| lacking.conditions_hold(other, rule);
        let applying: Vec<&Rule> = safeguards.iter().filter(applies).copied().collect();
        classes.iter().all(|class| applying.iter().any(|other| class.is_within(&other.when)))
    }

    /// Whether clients can make a rule apply that replaces others, and are then limited by no value that they cannot
    /// choose.
    fn replaces_at_will(&mut self, rule: &'p Rule) -> bool {
        let when = &rule.when;
        if rule.replaces.is_empty() || rule.denies() || is_for_gateway(rule) || when.network.is_some() {
            return false;
        }
        let mut chooses = !when.headers.is_empty();
        for (name, _) in &when.identities {
            if !self.can_be_chosen(name, MAX_STEPS) {
                return false;
            }
            chooses = true;
        }
        let mut has_new_counters = false;
        for name in &rule.key {
            let is_chosen = self.can_be_chosen(name, MAX_STEPS);
            if !is_chosen && self.can_be_omitted(name) {
                return false;
            }
            has_new_counters |= is_chosen;
        }
        has_new_counters || (chooses && (rule.shadow || !limits(rule)))
    }

    /// Reports rules that replace others at the client's will, and returns the names of the replaced rules.
    fn replaced_at_will(&mut self, rules: &mut Reporter<'_>) -> HashSet<&'p str> {
        let policy = self.policy;
        let mut replaced = HashSet::new();
        for (at, rule) in policy.rules.iter().enumerate() {
            if self.replaces_at_will(rule) {
                replaced.extend(rule.replaces.iter().map(String::as_str));
                let others = all_of(rule.replaces.iter().take(10).map(String::as_str));
                let message = format!("clients can make this rule apply at will, and so avoid {others}");
                let hint = "select its requests by a value that clients cannot choose: a network, or an identity with `trusted: true`\nor remove `replaces`";
                rules.item(at).member("replaces").add(codes::LIMITS_CAN_BE_AVOIDED, message, hint);
            }
        }
        replaced
    }
}

/// An identity that a request lacks, and the header that it is read from.
struct MissingIdentity<'n> {
    identity: &'n str,
    header: Option<&'n str>,
}

impl MissingIdentity<'_> {
    /// Whether the conditions of a safeguard on headers, identities and networks hold for every such request of a rule.
    fn conditions_hold(&self, safeguard: &Rule, rule: &Rule) -> bool {
        let (required, own) = (&safeguard.when, &rule.when);
        let holds = |own: &[(String, Condition)], lacking: Option<&str>, condition: &(String, Condition)| {
            (condition.1 == Condition::Absent && Some(condition.0.as_str()) == lacking) || own.contains(condition)
        };
        (required.network.is_none() || required.network == own.network)
            && required.identities.iter().all(|condition| holds(&own.identities, Some(self.identity), condition))
            && required.headers.iter().all(|condition| holds(&own.headers, self.header, condition))
    }
}

/// Whether every path of a rule has the segment that an identity is read from.
fn has_segment(rule: &Rule, source: Option<&IdentitySource>) -> bool {
    let Some(IdentitySource::PathSegment(segment)) = source else { return false };
    let segments = |path: &str| path.split('/').filter(|segment| !segment.is_empty()).count();
    !rule.when.paths.is_empty() && rule.when.paths.iter().all(|path| segments(path) >= *segment)
}

/// The most combinations of methods, hosts and paths that are checked.
const MAX_CLASSES: usize = 1_000;

/// One combination of a method, a host and a path pattern of a `when`; `None` matches any.
struct RequestClass<'w> {
    method: Option<&'w str>,
    host: Option<&'w str>,
    path: Option<&'w str>,
}

/// Returns all combinations of the methods, hosts and paths of a `when`, or `None` if they are too many.
fn request_classes(when: &When) -> Option<Vec<RequestClass<'_>>> {
    let (methods, hosts, paths) = (each(&when.methods), each(&when.hosts), each(&when.paths));
    let count = methods.len().checked_mul(hosts.len())?.checked_mul(paths.len())?;
    if count > MAX_CLASSES {
        return None;
    }
    let mut classes = Vec::with_capacity(count);
    for method in &methods {
        for host in &hosts {
            classes.extend(paths.iter().map(|path| RequestClass { method: *method, host: *host, path: *path }));
        }
    }
    Some(classes)
}

fn each(texts: &[String]) -> Vec<Option<&str>> {
    if texts.is_empty() { vec![None] } else { texts.iter().map(|text| Some(text.as_str())).collect() }
}

impl RequestClass<'_> {
    /// Whether every request of this class matches the methods, hosts and paths of a `when`.
    fn is_within(&self, when: &When) -> bool {
        let holds = |listed: &[String], own: Option<&str>, is_within: fn(&str, &str) -> bool| {
            listed.is_empty() || listed.iter().any(|outer| own.is_some_and(|own| is_within(own, outer)))
        };
        let any_path = when.paths.iter().any(|path| path == "/*");
        holds(&when.methods, self.method, method_within)
            && holds(&when.hosts, self.host, host_within)
            && (any_path || holds(&when.paths, self.path, path_within))
    }
}

fn method_within(inner: &str, outer: &str) -> bool {
    // GET includes HEAD.
    inner.eq_ignore_ascii_case(outer) || (inner.eq_ignore_ascii_case("HEAD") && outer.eq_ignore_ascii_case("GET"))
}

fn host_within(inner: &str, outer: &str) -> bool {
    let below = |domain: &str| inner.strip_suffix(domain).is_some_and(|before| before.ends_with('.'));
    inner == outer || outer.strip_prefix("*.").is_some_and(below)
}

/// Whether `outer` matches every path that `inner` matches.
fn path_within(inner: &str, outer: &str) -> bool {
    let (inner, inner_below) = split(inner);
    let (outer, outer_below) = split(outer);
    let alike = |(outer, inner): (&&str, &&str)| is_any(outer) || outer == inner;
    let begins = inner.len() >= outer.len() && outer.iter().zip(&inner).all(alike);
    match (outer_below, inner_below) {
        // Everything below the inner pattern is below the outer one.
        (true, true) => begins,
        (true, false) => begins && inner.len() > outer.len(),
        (false, true) => false,
        (false, false) => begins && inner.len() == outer.len(),
    }
}

/// Splits a pattern into its segments, and whether it matches everything below them.
fn split(pattern: &str) -> (Vec<&str>, bool) {
    let (above, below) = match pattern.strip_suffix("/*") {
        Some(above) => (above, true),
        None => (pattern, false),
    };
    (above.split('/').filter(|segment| !segment.is_empty()).collect(), below)
}

/// Whether a segment of a pattern matches any segment.
fn is_any(segment: &str) -> bool {
    segment == "*" || is_parameter(segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_patterns_are_within_wider_ones_only() {
        for (inner, outer, within) in [
            ("/a", "/a", true),
            ("/a", "/b", false),
            ("/a/b", "/a/*", true),
            ("/a", "/a/*", false),
            ("/a/*", "/a/*", true),
            ("/a/b/*", "/a/*", true),
            ("/a/*", "/a/b/*", false),
            ("/a/*", "/a", false),
            ("/users/*/orders", "/users/*", true),
            ("/users/7/orders", "/users/*/orders", true),
            ("/users/*/orders", "/users/7/orders", false),
            ("/users/{id}", "/users/*", true),
            ("/users/7/x", "/users/:id/x", true),
        ] {
            assert_eq!(path_within(inner, outer), within, "{inner} in {outer}");
        }
    }

    #[test]
    fn hosts_are_within_their_domain() {
        for (inner, outer, within) in [
            ("a.example.com", "*.example.com", true),
            ("*.a.example.com", "*.example.com", true),
            ("example.com", "*.example.com", false),
            ("badexample.com", "*.example.com", false),
            ("*.example.com", "a.example.com", false),
        ] {
            assert_eq!(host_within(inner, outer), within, "{inner} in {outer}");
        }
    }
}
