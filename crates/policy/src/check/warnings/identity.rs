//! Identities that clients can choose for themselves, addresses from the wrong place, and secrets that could be found
//! by trying.

use std::collections::HashSet;

use super::{Names, Reporter, codes, quoted};
use crate::check::identities::{member_of, weak_jwt_secret};
use crate::model::{ForwardedBy, Identity, IdentitySource, Policy, StoreSettings, TIER, TierSource};

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

pub(super) fn check(policy: &Policy, names: &Names<'_>, top: &mut Reporter<'_>) {
    let mut here = top.member("identity");
    client_ip(policy, &mut here.member("client_ip"));
    tier(policy, names, &mut here.member(TIER));
    let keys = || policy.rules.iter().flat_map(|rule| &rule.key).map(String::as_str);
    // The identities by which rules count or clients are let through, also by way of `first`.
    let allowed = policy.allow.identities.iter().map(|(name, _)| name.as_str());
    let relied_on: HashSet<&str> = names.with_listed(keys().chain(allowed)).into_iter().collect();
    for identity in policy.identities.iter().filter(|identity| !identity.trusted) {
        untrusted(identity, &relied_on, &mut here.member(&identity.name));
    }
    if let Some((wanted, length)) = policy.jwt.iter().flat_map(|jwt| &jwt.keys).find_map(weak_jwt_secret) {
        let message = format!("the shared secret has {length} bytes: less than {wanted} can be found by trying");
        let hint = format!("let the issuer make one of at least {wanted} random bytes");
        top.member("jwt").add(codes::SHORT_JWT_SECRET, message, hint);
    }
    if policy.secret_key.is_none() && matches!(policy.store, StoreSettings::Redis(_)) {
        let counted = names.with_listed(keys()).into_iter().collect();
        without_key(policy, &counted, &mut top.member("identity"));
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

fn untrusted(identity: &Identity, relied_on: &HashSet<&str>, here: &mut Reporter<'_>) {
    let source = &identity.source;
    let name = quoted(&identity.name);
    if let IdentitySource::Header(header) = source
        && ADDRESS_HEADERS.contains(&header.as_str())
    {
        let message = format!("{name} is whatever a client writes into {}", quoted(header));
        let hint = "use the identity `client_ip`, with your proxies as `trusted_proxies`\nor add `trusted: true` if a proxy in front always replaces the header";
        here.member("header").add(codes::ADDRESS_FROM_HEADER, message, hint);
    } else if is_free(source) && relied_on.contains(identity.name.as_str()) {
        let message = format!(
            "clients can choose {name} freely: a new value is a new counter, somebody else's value is their counter"
        );
        let hint = "add `trusted: true` if somebody in front sets or verifies it\nelse count by `client_ip` as well, or take it from a signed token (`jwt`)";
        here.member(member_of(source)).add(codes::UNTRUSTED_IDENTITY, message, hint);
    }
}

/// Instances without a key agree with each other, so it is no error.
fn without_key(policy: &Policy, counted: &HashSet<&str>, here: &mut Reporter<'_>) {
    let mut secret = policy.identities.iter().filter(|identity| identity.is_secret());
    let Some(identity) = secret.find(|identity| counted.contains(identity.name.as_str())) else { return };
    let name = quoted(&identity.name);
    let message = format!("values of {name} are on Redis as hashes without a key: short ones can be found by trying");
    let hint = "add `secrets: { key_file: FILE }` with at least 32 random bytes, the same for all instances";
    here.member(&identity.name).add(codes::SECRET_WITHOUT_KEY, message, hint);
}

fn tier(policy: &Policy, names: &Names<'_>, here: &mut Reporter<'_>) {
    let Some(tier) = policy.tier.as_ref().filter(|tier| !tier.trusted) else { return };
    let (member, message) = match &tier.source {
        TierSource::Direct(source) if is_free(source) => {
            (member_of(source), "clients can choose their tier freely".to_owned())
        }
        TierSource::Listed { by, .. } => match names.declared(by) {
            // Whoever knows somebody else's value has their tier; that it is a secret only the policy's author can say.
            Some(identity) if !identity.trusted && is_free(&identity.source) => {
                ("by", format!("clients can choose {} freely, and with it their tier", quoted(by)))
            }
            _ => return,
        },
        TierSource::Direct(_) => return,
    };
    let hint = "add `trusted: true` if somebody in front sets or verifies it, else take it from a signed token (`jwt`)";
    here.member(member).add(codes::UNTRUSTED_TIER, message, hint);
}

fn client_ip(policy: &Policy, here: &mut Reporter<'_>) {
    let client_ip = &policy.client_ip;
    if client_ip.forwarded_by != ForwardedBy::XForwardedFor && client_ip.trusted_proxies.is_empty() {
        let message = "this header is never read: nobody is trusted to say for whom they speak";
        let hint = "add `trusted_proxies` with the addresses of your proxies, or leave `header` out";
        here.member("header").add(codes::HEADER_WITHOUT_PROXIES, message, hint);
    }
    for (at, network) in client_ip.trusted_proxies.iter().enumerate().filter(|(_, network)| network.prefix_len() == 0) {
        let message = format!("{network} is everybody: any client can say that it is another one");
        let hint = "name the networks of your own proxies only";
        here.member("trusted_proxies").item(at).add(codes::PROXIES_EVERYWHERE, message, hint);
    }
    if client_ip.ipv6_prefix > 64 {
        let bits = client_ip.ipv6_prefix;
        let message = format!(
            "with {bits} bits one IPv6 customer is many clients: most have 2^64 addresses and can change them at will"
        );
        here.member("ipv6_prefix").add(codes::LONG_IPV6_PREFIX, message, "64 or less holds them together");
    }
}
