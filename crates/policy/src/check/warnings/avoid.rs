//! Limits from which clients can free themselves.
//!
//! A rule does not apply to a request that lacks an identity of its key. That is safe only where another rule limits
//! or denies the same requests by something that the client can neither leave out nor choose: such a rule is a
//! safeguard here. All requests of the first rule must be covered, on each of its paths, methods and hosts.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::identity::is_free;
use super::{Names, Reporter, codes, quoted};
use crate::check::words::all_of;
use crate::model::{Allowance, Condition, IdentitySource, Policy, Rule, TIER, TierSource, When, is_parameter};

/// `first` of `first` of `first` .. is not followed further.
const MAX_STEPS: usize = 32;

/// So many rules are compared with each other; beyond, a rule is taken for covered: only what is certain is said.
const MAX_COMPARISONS: usize = 500_000;

pub(super) fn check<'p>(policy: &'p Policy, names: &Names<'p>, rules: &mut Reporter<'_>) {
    let mut clients = Clients { policy, names, chosen: HashMap::new() };
    let replaced = clients.replaced_at_will(rules);
    let limiting = || policy.rules.iter().enumerate().filter(|(_, rule)| !rule.shadow && limits(rule));
    let lasting = policy.rules.iter().filter(|rule| !replaced.contains(rule.name.as_str()));
    let safeguards: Vec<&Rule> = lasting.filter(|rule| clients.is_safeguard(rule)).collect();
    let has_limit = safeguards.iter().any(|rule| !rule.denies());
    let mut left = MAX_COMPARISONS;
    let mut uncovered = Vec::new();
    let mut is_all = true;
    for (at, rule) in limiting() {
        let optional = clients.optional_parts(rule);
        let is_open = |part: &&(usize, &str)| match is_of_gateway(rule) {
            // Which descriptors a gateway sends beside these is not known here.
            true => !has_limit,
            false => !clients.is_covered(rule, part.1, &safeguards, &mut left),
        };
        let open: Vec<(usize, &str)> = optional.iter().filter(is_open).copied().collect();
        is_all &= !open.is_empty();
        uncovered.extend(open.into_iter().map(|(part, name)| (at, part, name)));
    }
    if uncovered.is_empty() {
        return;
    }
    let first = "count by the first that is present: `first: [user, client_ip]`";
    if is_all {
        let names: BTreeSet<&str> = uncovered.iter().map(|(_, _, name)| *name).collect();
        let message = format!("a request without {} meets no limit at all", all_of(names.into_iter().take(10)));
        return rules.add(codes::LIMITS_CAN_BE_AVOIDED, message, format!("add a rule by `client_ip`, or {first}"));
    }
    for (at, part, name) in uncovered {
        let message = format!(
            "a request without {} avoids this rule, and no rule limits all of the same requests by what clients cannot choose",
            quoted(name)
        );
        let hint = format!(
            "add a rule by `client_ip` for the same requests, or {first}\nor deny such requests: `when: {{ identity: {{ {name}: false }} }}` with `deny: true`"
        );
        rules.item(at).member("key").item(part).add(codes::LIMITS_CAN_BE_AVOIDED, message, hint);
    }
}

fn limits(rule: &Rule) -> bool {
    rule.allowance.quotas().next().is_some()
}

fn is_of_gateway(rule: &Rule) -> bool {
    rule.when.exact_entries || !rule.when.domains.is_empty()
}

/// What clients can do about the identities of a policy. Each identity is looked at once, as `first` may lead to the
/// same one on many ways.
struct Clients<'p, 'n> {
    policy: &'p Policy,
    names: &'n Names<'p>,
    chosen: HashMap<&'p str, bool>,
}

impl<'p> Clients<'p, '_> {
    /// The parts of a rule's key that a request of the rule can lack, with their positions.
    fn optional_parts(&self, rule: &'p Rule) -> Vec<(usize, &'p str)> {
        let parts = rule.key.iter().map(String::as_str).enumerate();
        let is_optional = |name| self.can_be_left_out(name) && !has_segment(rule, self.names.source(name));
        parts.filter(|(_, name)| is_optional(name)).collect()
    }

    fn can_be_left_out(&self, name: &str) -> bool {
        let found = self.names.spread(std::iter::once(name));
        // What is built in, and the tier, every request has.
        let is_always_there =
            |name| matches!(self.names.source(name), None | Some(IdentitySource::Peer | IdentitySource::Value(_)));
        !found.is_empty() && !found.into_iter().any(is_always_there)
    }

    /// Whether clients can put there what they like, and so have a new counter whenever they want.
    fn can_be_chosen(&mut self, name: &'p str, steps: usize) -> bool {
        if let Some(known) = self.chosen.get(name) {
            return *known;
        }
        let answer = match self.names.declared(name) {
            Some(identity) if identity.trusted => false,
            Some(identity) => match &identity.source {
                IdentitySource::First(others) => {
                    steps > 0 && others.iter().any(|other| self.can_be_chosen(other, steps - 1))
                }
                source => is_free(source),
            },
            None if name == TIER => self.policy.tier.as_ref().is_some_and(|tier| match &tier.source {
                _ if tier.trusted => false,
                TierSource::Direct(source) => is_free(source),
                TierSource::Listed { by, .. } => steps > 0 && self.can_be_chosen(by, steps - 1),
            }),
            None => false,
        };
        self.chosen.insert(name, answer);
        answer
    }

    /// Whether a rule denies, or limits every client to which its conditions apply.
    fn is_safeguard(&mut self, rule: &'p Rule) -> bool {
        if rule.shadow || is_of_gateway(rule) {
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
        // Without a path of its own the rule has no route where no pattern matches.
        let has_route = |name: &&String| *name != "route" || !rule.when.paths.is_empty();
        is_limited
            && self.optional_parts(rule).is_empty()
            && rule.key.iter().all(|name| has_route(&name) && !self.can_be_chosen(name, MAX_STEPS))
    }

    /// Whether safeguards limit or deny all requests of a rule that lack this identity.
    fn is_covered(&self, rule: &Rule, lacking: &str, safeguards: &[&Rule], left: &mut usize) -> bool {
        let Some(parts) = parts(&rule.when) else { return true };
        let comparisons = safeguards.len().saturating_mul(parts.len());
        if *left < comparisons {
            return true;
        }
        *left -= comparisons;
        let header = match self.names.source(lacking) {
            Some(IdentitySource::Header(header)) => Some(header.as_str()),
            _ => None,
        };
        let lacking = Lacking { identity: lacking, header };
        let applies = |other: &&&Rule| lacking.conditions_hold(other, rule);
        let applying: Vec<&Rule> = safeguards.iter().filter(applies).copied().collect();
        parts.iter().all(|part: &Part<'_>| applying.iter().any(|other| part.is_within(&other.when)))
    }

    /// Whether clients can have a rule apply that takes others away, and are then limited by nothing that they cannot
    /// choose.
    fn frees_at_will(&mut self, rule: &'p Rule) -> bool {
        let when = &rule.when;
        if rule.replaces.is_empty() || rule.denies() || is_of_gateway(rule) || when.network.is_some() {
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
            if !is_chosen && self.can_be_left_out(name) {
                return false;
            }
            has_new_counters |= is_chosen;
        }
        has_new_counters || (chooses && (rule.shadow || !limits(rule)))
    }

    /// The names of the rules that clients can have taken away, which is told.
    fn replaced_at_will(&mut self, rules: &mut Reporter<'_>) -> HashSet<&'p str> {
        let policy = self.policy;
        let mut replaced = HashSet::new();
        for (at, rule) in policy.rules.iter().enumerate() {
            if self.frees_at_will(rule) {
                replaced.extend(rule.replaces.iter().map(String::as_str));
                let others = all_of(rule.replaces.iter().take(10).map(String::as_str));
                let message = format!("clients can have this rule apply at will, and are then free of {others}");
                let hint = "let it depend on what clients cannot choose: a network, or an identity with `trusted: true`\nor leave out `replaces`";
                rules.item(at).member("replaces").add(codes::LIMITS_CAN_BE_AVOIDED, message, hint);
            }
        }
        replaced
    }
}

/// What a request lacks: an identity, and the header that it comes from.
struct Lacking<'n> {
    identity: &'n str,
    header: Option<&'n str>,
}

impl Lacking<'_> {
    /// Whether all that a safeguard asks of headers, identities and networks holds for every such request of a rule.
    fn conditions_hold(&self, safeguard: &Rule, rule: &Rule) -> bool {
        let (asked, own) = (&safeguard.when, &rule.when);
        let holds = |own: &[(String, Condition)], lacking: Option<&str>, asked: &(String, Condition)| {
            (asked.1 == Condition::Absent && Some(asked.0.as_str()) == lacking) || own.contains(asked)
        };
        (asked.network.is_none() || asked.network == own.network)
            && asked.identities.iter().all(|asked| holds(&own.identities, Some(self.identity), asked))
            && asked.headers.iter().all(|asked| holds(&own.headers, self.header, asked))
    }
}

/// Whether every path of a rule has the segment that an identity is.
fn has_segment(rule: &Rule, source: Option<&IdentitySource>) -> bool {
    let Some(IdentitySource::PathSegment(segment)) = source else { return false };
    let segments = |path: &str| path.split('/').filter(|segment| !segment.is_empty()).count();
    !rule.when.paths.is_empty() && rule.when.paths.iter().all(|path| segments(path) >= *segment)
}

/// More combinations are not looked at.
const MAX_PARTS: usize = 1_000;

/// One method, host and path pattern of a `when`; `None` where it asks for none.
struct Part<'w> {
    method: Option<&'w str>,
    host: Option<&'w str>,
    path: Option<&'w str>,
}

/// All combinations of what a `when` lists; `None` where they are too many.
fn parts(when: &When) -> Option<Vec<Part<'_>>> {
    let (methods, hosts, paths) = (each(&when.methods), each(&when.hosts), each(&when.paths));
    let count = methods.len().checked_mul(hosts.len())?.checked_mul(paths.len())?;
    if count > MAX_PARTS {
        return None;
    }
    let mut parts = Vec::with_capacity(count);
    for method in &methods {
        for host in &hosts {
            parts.extend(paths.iter().map(|path| Part { method: *method, host: *host, path: *path }));
        }
    }
    Some(parts)
}

fn each(texts: &[String]) -> Vec<Option<&str>> {
    if texts.is_empty() { vec![None] } else { texts.iter().map(|text| Some(text.as_str())).collect() }
}

impl Part<'_> {
    /// Whether every request of this part has a method, a host and a path that are asked for.
    fn is_within(&self, when: &When) -> bool {
        let holds = |asked: &[String], own: Option<&str>, is_within: fn(&str, &str) -> bool| {
            asked.is_empty() || asked.iter().any(|outer| own.is_some_and(|own| is_within(own, outer)))
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

/// Whether every path that one pattern means is one that another means.
fn path_within(inner: &str, outer: &str) -> bool {
    let (inner, inner_below) = split(inner);
    let (outer, outer_below) = split(outer);
    let alike = |(outer, inner): (&&str, &&str)| is_any(outer) || outer == inner;
    let begins = inner.len() >= outer.len() && outer.iter().zip(&inner).all(alike);
    match (outer_below, inner_below) {
        // What is below the inner one is below the outer one.
        (true, true) => begins,
        (true, false) => begins && inner.len() > outer.len(),
        (false, true) => false,
        (false, false) => begins && inner.len() == outer.len(),
    }
}

/// The segments of a pattern, and whether it means everything below them.
fn split(pattern: &str) -> (Vec<&str>, bool) {
    let (above, below) = match pattern.strip_suffix("/*") {
        Some(above) => (above, true),
        None => (pattern, false),
    };
    (above.split('/').filter(|segment| !segment.is_empty()).collect(), below)
}

/// A segment that stands for any one.
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
