//! Warns about identities that clients can choose freely, addresses from untrusted headers, and secrets that are open to
//! brute force.

use std::collections::HashSet;

use super::{IdentityNames, Reporter, codes, quoted};
use crate::check::identities::{member_of, weak_jwt_secret};
use crate::model::{ForwardedBy, Identity, IdentitySource, Policy, StoreSettings, TIER, TierSource};

/// Headers in which proxies state the client's address. Any client can send them with any content.
const ADDRESS_HEADERS: [&str; 7] = [
    "x-forwarded-for",
    "forwarded",
    "x-real-ip",
    "x-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "x-cluster-client-ip",
];

pub(super) fn check(policy: &Policy, names: &IdentityNames<'_>, top: &mut Reporter<'_>) {
    let mut here = top.member("identity");
    client_ip(policy, &mut here.member("client_ip"));
    tier(policy, names, &mut here.member(TIER));
    let keys = || policy.rules.iter().flat_map(|rule| &rule.key).map(String::as_str);
    // The identities in keys and in `allow`, and those of their `first` lists.
    let allowed = policy.allow.identities.iter().map(|(name, _)| name.as_str());
    let relied_on: HashSet<&str> = names.with_listed(keys().chain(allowed)).into_iter().collect();
    for identity in policy.identities.iter().filter(|identity| !identity.trusted) {
        untrusted(identity, &relied_on, &mut here.member(&identity.name));
    }
    if let Some((recommended, length)) = policy.jwt.iter().flat_map(|jwt| &jwt.keys).find_map(weak_jwt_secret) {
        let message = format!(
            "the shared secret has {length} bytes: secrets of less than {recommended} bytes can be found by brute force"
        );
        let hint = format!("have the issuer generate at least {recommended} random bytes");
        top.member("jwt").add(codes::SHORT_JWT_SECRET, message, hint);
    }
    if policy.secret_key.is_none() && matches!(policy.store, StoreSettings::Redis(_)) {
        let counted = names.with_listed(keys()).into_iter().collect();
        without_key(policy, &counted, &mut top.member("identity"));
    }
}

/// Whether clients can choose the value of a source freely.
pub(super) fn is_client_chosen(source: &IdentitySource) -> bool {
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
        let message = format!("{name} is read from {}, which any client can send with any content", quoted(header));
        let hint = "use the identity `client_ip`, with your proxies as `trusted_proxies`\nor add `trusted: true` if a proxy in front always replaces the header";
        here.member("header").add(codes::ADDRESS_FROM_HEADER, message, hint);
    } else if is_client_chosen(source) && relied_on.contains(identity.name.as_str()) {
        let message = format!(
            "clients can choose {name} freely: a new value has a new counter, and the value of another client uses up its limit"
        );
        let hint = "add `trusted: true` if a gateway in front sets or verifies it\notherwise add a rule with `key: client_ip`, or read it from a signed token (`jwt`)";
        here.member(member_of(source)).add(codes::UNTRUSTED_IDENTITY, message, hint);
    }
}

/// Warns about hashes without a key. It is not an error, because instances without a key compute the same hashes.
fn without_key(policy: &Policy, counted: &HashSet<&str>, here: &mut Reporter<'_>) {
    let mut secret = policy.identities.iter().filter(|identity| identity.is_secret());
    let Some(identity) = secret.find(|identity| counted.contains(identity.name.as_str())) else { return };
    let name = quoted(&identity.name);
    let message = format!(
        "values of {name} are stored in Redis as hashes without a key: short values can be found by brute force"
    );
    let hint = "add `secrets: { key_file: FILE }` with at least 32 random bytes, the same for all instances";
    here.member(&identity.name).add(codes::SECRET_WITHOUT_KEY, message, hint);
}

fn tier(policy: &Policy, names: &IdentityNames<'_>, here: &mut Reporter<'_>) {
    let Some(tier) = policy.tier.as_ref().filter(|tier| !tier.trusted) else { return };
    let (member, message) = match &tier.source {
        TierSource::Direct(source) if is_client_chosen(source) => {
            (member_of(source), "clients can choose their tier freely".to_owned())
        }
        TierSource::Listed { by, .. } => match names.declared(by) {
            // A client that knows another client's value has its tier. Only the policy's author knows whether values are
            // secret.
            Some(identity) if !identity.trusted && is_client_chosen(&identity.source) => {
                ("by", format!("clients can choose {} freely, and with it their tier", quoted(by)))
            }
            _ => return,
        },
        TierSource::Direct(_) => return,
    };
    let hint = "add `trusted: true` if a gateway in front sets or verifies it, or read it from a signed token (`jwt`)";
    here.member(member).add(codes::UNTRUSTED_TIER, message, hint);
}

fn client_ip(policy: &Policy, here: &mut Reporter<'_>) {
    let client_ip = &policy.client_ip;
    if client_ip.forwarded_by != ForwardedBy::XForwardedFor && client_ip.trusted_proxies.is_empty() {
        let message = "this header is never read: no proxy is trusted to set it";
        let hint = "add `trusted_proxies` with the addresses of your proxies, or remove `header`";
        here.member("header").add(codes::HEADER_WITHOUT_PROXIES, message, hint);
    }
    for (at, network) in client_ip.trusted_proxies.iter().enumerate().filter(|(_, network)| network.prefix_len() == 0) {
        let message = format!("{network} contains all addresses: any client can claim to be another one");
        let hint = "list only the networks of your own proxies";
        here.member("trusted_proxies").item(at).add(codes::PROXIES_EVERYWHERE, message, hint);
    }
    if client_ip.ipv6_prefix > 64 {
        let bits = client_ip.ipv6_prefix;
        let message = format!(
            "a prefix of {bits} bits counts one IPv6 customer as many clients: most have 2^64 addresses and can change them at will"
        );
        here.member("ipv6_prefix").add(codes::LONG_IPV6_PREFIX, message, "use 64 or less");
    }
}
