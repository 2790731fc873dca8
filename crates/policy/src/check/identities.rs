//! Identities, tiers, and what verifies them.

use std::collections::{HashMap, HashSet};

use super::names::Names;
use super::problems::Problems;
use super::words::quoted;
use super::{codes, patterns, syntax};
use crate::model::{BUILT_IN_IDENTITIES, Identity, IdentitySource, OnInvalid, Policy, TIER, Tier, TierSource};
use crate::problem::Place;

pub(super) fn check(policy: &Policy, names: &Names<'_>, problems: &mut Problems) {
    let place = Place::top().member("identity");
    let mut known = HashSet::new();
    for identity in &policy.identities {
        let place = place.member(&identity.name);
        name(&identity.name, &place, problems);
        if !known.insert(&identity.name) {
            let message = format!("the identity {} is declared twice", quoted(&identity.name));
            problems.add(codes::DUPLICATE_NAME, place.clone(), message, "give one of the two another name");
        }
        source(&identity.source, &place, problems);
        needs_key(&identity.source, identity.trusted, policy, &place, problems);
        on_invalid(identity, &place, problems);
        if let IdentitySource::First(others) = &identity.source {
            let place = place.member("first");
            syntax::not_empty(others, "identity", &place, problems);
            for (at, other) in others.iter().enumerate() {
                names.check(other, place.item(at), problems);
            }
        }
    }
    circles(policy, problems);
    client_ip(policy, &place.member("client_ip"), problems);
    if let Some(own) = &policy.tier {
        tier(own, policy, names, &place.member(TIER), problems);
    }
    if policy.jwt.as_ref().is_some_and(|jwt| jwt.key.is_empty()) {
        problems.add(codes::MISSING_SECRET, Place::top().member("jwt"), "the key that verifies tokens is empty", "");
    }
}

/// The member in which a source is written down.
pub(super) fn member_of(source: &IdentitySource) -> &'static str {
    match source {
        IdentitySource::Peer => "peer",
        IdentitySource::Header(_) => "header",
        IdentitySource::Cookie(_) => "cookie",
        IdentitySource::PathSegment(_) => "path_segment",
        IdentitySource::Query(_) => "query",
        IdentitySource::Bearer => "bearer",
        IdentitySource::Jwt(_) => "jwt",
        IdentitySource::Value(_) => "value",
        IdentitySource::First(_) => "first",
        IdentitySource::Given => "given",
    }
}

fn name(name: &str, place: &Place, problems: &mut Problems) {
    if BUILT_IN_IDENTITIES.contains(&name) || name == TIER {
        let message = format!("the identity {} exists already and cannot be declared", quoted(name));
        problems.add(codes::RESERVED_NAME, place.clone(), message, "choose another name");
    } else if !syntax::is_identity_name(name) {
        let message = format!("{} cannot be the name of an identity", quoted(name));
        let hint = "a name begins with a small letter, and has small letters, digits and `_`, at most 64";
        problems.add(codes::BAD_NAME, place.clone(), message, hint);
    }
}

fn source(source: &IdentitySource, place: &Place, problems: &mut Problems) {
    let place = place.member(member_of(source));
    match source {
        IdentitySource::Header(name) | IdentitySource::Cookie(name) => syntax::header(name, place, problems),
        IdentitySource::Query(name) => syntax::text(name, "the name of a query parameter", place, problems),
        IdentitySource::Jwt(claim) => syntax::text(claim, "the name of a claim", place, problems),
        IdentitySource::Value(value) => syntax::text(value, "a value", place, problems),
        IdentitySource::PathSegment(segment) => {
            syntax::range(*segment as u64, 1, u64::MAX, "a segment's number", place, problems);
        }
        IdentitySource::Peer | IdentitySource::Bearer | IdentitySource::First(_) | IdentitySource::Given => {}
    }
}

fn needs_key(source: &IdentitySource, trusted: bool, policy: &Policy, place: &Place, problems: &mut Problems) {
    if !matches!(source, IdentitySource::Jwt(_)) {
        return;
    }
    let place = place.member("jwt");
    if cfg!(not(feature = "jwt")) {
        let message = "this program was built without the feature `jwt`, so it cannot read tokens";
        problems.add(
            codes::JWT_NOT_BUILT,
            place,
            message,
            "build it with the feature, or take the value from elsewhere",
        );
    } else if policy.jwt.is_none() && !trusted {
        let hint = "add `jwt:` with an algorithm and a key at the top of the policy\nor add `trusted: true` if somebody in front has verified the token";
        let message = "there is no key to verify the token that this claim is taken from";
        problems.add(codes::JWT_WITHOUT_KEY, place, message, hint);
    }
}

fn on_invalid(identity: &Identity, place: &Place, problems: &mut Problems) {
    let has_token = matches!(identity.source, IdentitySource::Jwt(_) | IdentitySource::Bearer);
    if identity.on_invalid != OnInvalid::default() && !has_token {
        let message = "`on_invalid` goes with `jwt` or `bearer`";
        let hint = "leave it out: only tokens can be invalid";
        problems.add(codes::MISPLACED_MEMBER, place.member("on_invalid"), message, hint);
    }
}

fn client_ip(policy: &Policy, place: &Place, problems: &mut Problems) {
    let client_ip = &policy.client_ip;
    for (name, bits, most) in [("ipv6_prefix", client_ip.ipv6_prefix, 128), ("ipv4_prefix", client_ip.ipv4_prefix, 32)]
    {
        syntax::range(bits.into(), 1, most, "a prefix", place.member(name), problems);
    }
}

fn tier(tier: &Tier, policy: &Policy, names: &Names<'_>, place: &Place, problems: &mut Problems) {
    syntax::text(&tier.default, "a tier", place.member("default"), problems);
    match &tier.source {
        TierSource::Direct(direct) => {
            source(direct, place, problems);
            needs_key(direct, tier.trusted, policy, place, problems);
            if let IdentitySource::First(_) = direct {
                let message = "a tier cannot be the first of several identities";
                problems.add(codes::MISPLACED_MEMBER, place.member("first"), message, "take it from one source");
            }
        }
        TierSource::Listed { by, tiers } => {
            if by == TIER {
                let message = "the tier cannot be chosen by the tier itself";
                problems.add(codes::UNKNOWN_IDENTITY, place.member("by"), message, "choose it by another identity");
            } else {
                names.check(by, place.member("by"), problems);
            }
            for (value, tier) in tiers {
                patterns::check(by, value, names, || place.member("map").member(value), problems);
                syntax::text(tier, "a tier", place.member("map").member(value), problems);
            }
        }
    }
}

/// Whether `first` leads back to where it began. Chains may be long, so there is no recursion.
fn circles(policy: &Policy, problems: &mut Problems) {
    let left = leading_to_a_circle(policy);
    // Following what is left far enough ends on a circle.
    let Some(start) = policy.identities.iter().find(|identity| left.contains_key(identity.name.as_str())) else {
        return;
    };
    let next = |name: &str| left.get(name)?.iter().find(|other| left.contains_key(other.as_str())).map(String::as_str);
    let mut at = start.name.as_str();
    for _ in 0..left.len() {
        at = next(at).unwrap_or(at);
    }
    let place = Place::top().member("identity").member(at).member("first");
    let message = match next(at) {
        Some(through) if through != at => format!("{} leads back to itself, through {}", quoted(at), quoted(through)),
        _ => format!("{} leads back to itself", quoted(at)),
    };
    problems.add(codes::CIRCULAR_FIRST, place, message, "break the circle: remove one of the names");
}

/// The choices that are left when those that end somewhere are taken away, one after the other.
fn leading_to_a_circle(policy: &Policy) -> HashMap<&str, &[String]> {
    let mut left: HashMap<&str, &[String]> = policy.identities.iter().filter_map(choice).collect();
    let mut open_ends: HashMap<&str, usize> = HashMap::new();
    let mut asked_by: HashMap<&str, Vec<&str>> = HashMap::new();
    for (name, others) in &left {
        for other in others.iter().filter(|other| left.contains_key(other.as_str())) {
            *open_ends.entry(name).or_default() += 1;
            asked_by.entry(other).or_default().push(name);
        }
    }
    let mut done: Vec<&str> = left.keys().copied().filter(|name| !open_ends.contains_key(name)).collect();
    while let Some(name) = done.pop() {
        left.remove(name);
        for asking in asked_by.get(name).into_iter().flatten() {
            if let Some(ends) = open_ends.get_mut(asking) {
                *ends -= 1;
                if *ends == 0 {
                    done.push(asking);
                }
            }
        }
    }
    left
}

fn choice(identity: &Identity) -> Option<(&str, &[String])> {
    match &identity.source {
        IdentitySource::First(others) => Some((&identity.name, others)),
        _ => None,
    }
}
