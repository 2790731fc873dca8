//! Identities that clients can choose for themselves, and addresses from the wrong place.

use std::collections::HashSet;

use super::super::codes;
use super::super::identities::member_of;
use super::super::names::Names;
use super::super::problems::Problems;
use super::super::words::quoted;
use crate::model::{ForwardedBy, Identity, IdentitySource, Policy, TIER, TierSource};
use crate::problem::Place;

/// Headers in which proxies say for whom they speak, and in which anybody can say anything.
const ADDRESS_HEADERS: [&str; 7] = [
    "x-forwarded-for",
    "forwarded",
    "x-real-ip",
    "x-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "x-cluster-client-ip",
];

pub(super) fn check(policy: &Policy, names: &Names<'_>, problems: &mut Problems) {
    let place = Place::top().member("identity");
    client_ip(policy, &place.member("client_ip"), problems);
    tier(policy, names, &place.member(TIER), problems);
    let relied_on = relied_on(policy, names);
    for identity in &policy.identities {
        if !identity.trusted {
            untrusted(identity, &relied_on, &place.member(&identity.name), problems);
        }
    }
}

/// Whether whoever sends a request can put there what they like.
pub(super) fn is_free(source: &IdentitySource) -> bool {
    matches!(
        source,
        IdentitySource::Header(_)
            | IdentitySource::Cookie(_)
            | IdentitySource::Query(_)
            | IdentitySource::PathSegment(_)
            | IdentitySource::Bearer
    )
}

fn untrusted(identity: &Identity, relied_on: &HashSet<&str>, place: &Place, problems: &mut Problems) {
    let source = &identity.source;
    let name = quoted(&identity.name);
    if let IdentitySource::Header(header) = source
        && ADDRESS_HEADERS.contains(&header.as_str())
    {
        let message = format!("{name} is whatever a client writes into {}", quoted(header));
        let hint = "use the identity `client_ip`, with your proxies as `trusted_proxies`\nor add `trusted: true` if a proxy in front always replaces the header";
        problems.add(codes::ADDRESS_FROM_HEADER, place.member("header"), message, hint);
    } else if is_free(source) && relied_on.contains(identity.name.as_str()) {
        let message = format!(
            "clients can choose {name} freely: a new value is a new counter, somebody else's value is their counter"
        );
        let hint = "add `trusted: true` if somebody in front sets or verifies it\nelse count by `client_ip` as well, or take it from a signed token (`jwt`)";
        problems.add(codes::UNTRUSTED_IDENTITY, place.member(member_of(source)), message, hint);
    }
}

/// The identities by which rules count or clients are let through, also by way of `first`.
fn relied_on<'p>(policy: &'p Policy, names: &Names<'p>) -> HashSet<&'p str> {
    let keys = policy.rules.iter().flat_map(|rule| &rule.key).map(String::as_str);
    let allowed = policy.allow.identities.iter().map(|(name, _)| name.as_str());
    with_listed(keys.chain(allowed), names)
}

/// These identities, and those that they are the first of.
pub(super) fn with_listed<'p>(these: impl Iterator<Item = &'p str>, names: &Names<'p>) -> HashSet<&'p str> {
    let mut open: Vec<&str> = these.collect();
    let mut found = HashSet::new();
    while let Some(name) = open.pop() {
        if found.insert(name)
            && let Some(IdentitySource::First(others)) = names.source(name)
        {
            open.extend(others.iter().map(String::as_str));
        }
    }
    found
}

fn tier(policy: &Policy, names: &Names<'_>, place: &Place, problems: &mut Problems) {
    let Some(tier) = policy.tier.as_ref().filter(|tier| !tier.trusted) else { return };
    let (place, message) = match &tier.source {
        TierSource::Direct(source) if is_free(source) => {
            (place.member(member_of(source)), "clients can choose their tier freely".to_owned())
        }
        TierSource::Listed { by, .. } => match names.declared(by) {
            // Whoever knows somebody else's value has their tier; that it is a secret only the policy's author can say.
            Some(identity) if !identity.trusted && is_free(&identity.source) => {
                let message = format!("clients can choose {} freely, and with it their tier", quoted(by));
                (place.member("by"), message)
            }
            _ => return,
        },
        TierSource::Direct(_) => return,
    };
    let hint = "add `trusted: true` if somebody in front sets or verifies it, else take it from a signed token (`jwt`)";
    problems.add(codes::UNTRUSTED_TIER, place, message, hint);
}

fn client_ip(policy: &Policy, place: &Place, problems: &mut Problems) {
    let client_ip = &policy.client_ip;
    if client_ip.forwarded_by != ForwardedBy::XForwardedFor && client_ip.trusted_proxies.is_empty() {
        let message = "this header is never read: nobody is trusted to say for whom they speak";
        let hint = "add `trusted_proxies` with the addresses of your proxies, or leave `header` out";
        problems.add(codes::HEADER_WITHOUT_PROXIES, place.member("header"), message, hint);
    }
    for (at, network) in client_ip.trusted_proxies.iter().enumerate().filter(|(_, network)| network.prefix_len() == 0) {
        let message = format!("{network} is everybody: any client can say that it is another one");
        let hint = "name the networks of your own proxies only";
        problems.add(codes::PROXIES_EVERYWHERE, place.member("trusted_proxies").item(at), message, hint);
    }
    if client_ip.ipv6_prefix > 64 {
        let bits = client_ip.ipv6_prefix;
        let message = format!(
            "with {bits} bits one IPv6 customer is many clients: most have 2^64 addresses and can change them at will"
        );
        problems.add(codes::LONG_IPV6_PREFIX, place.member("ipv6_prefix"), message, "64 or less holds them together");
    }
}
