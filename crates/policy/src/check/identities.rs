//! Checks identities, the tier, the keys of tokens and secrets, and the lists `deny` and `allow`.

use std::collections::HashSet;

use super::{IdentityNames, Reporter, codes, quoted, syntax};
use crate::model::{
    AccessList, BUILT_IN_IDENTITIES, Identity, IdentitySource, JwtAlgorithm, JwtKey, JwtSettings, KeyMaterial,
    MAX_JWT_KEYS, OnInvalid, Policy, TIER, Tier, TierSource,
};

pub(super) fn check(policy: &Policy, names: &IdentityNames<'_>, top: &mut Reporter<'_>) {
    let mut known = HashSet::new();
    let mut here = top.member("identity");
    for identity in &policy.identities {
        let mut here = here.member(&identity.name);
        name(&identity.name, &mut here);
        if !known.insert(&identity.name) {
            let message = format!("the identity {} is declared twice", quoted(&identity.name));
            here.add(codes::DUPLICATE_NAME, message, "rename one of the two");
        }
        source(&identity.source, &mut here);
        needs_key(&identity.source, identity.trusted, policy, &mut here);
        on_invalid(identity, &mut here);
        if let IdentitySource::First(others) = &identity.source {
            let mut here = here.member("first");
            here.not_empty(others, "identity");
            here.each(others, |other, here| names.check(other, here));
        }
    }
    cycles(policy, names, &mut here);
    let mut client_ip = here.member("client_ip");
    client_ip.member("ipv6_prefix").range(policy.client_ip.ipv6_prefix.into(), 1..=128, "a prefix");
    client_ip.member("ipv4_prefix").range(policy.client_ip.ipv4_prefix.into(), 1..=32, "a prefix");
    if let Some(own) = &policy.tier {
        tier(own, policy, names, &mut here.member(TIER));
    }
    access(&policy.deny, names, &mut top.member("deny"));
    access(&policy.allow, names, &mut top.member("allow"));
}

/// Returns the member that sets a source.
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

fn name(name: &str, here: &mut Reporter<'_>) {
    if name == TIER {
        let message = "`tier` cannot be declared as an identity: it is the tier of a client, which has a default";
        let hint = "in a program, call `.tier_from(source, default)`; in a file, write `tier: { header: X-Tier, default: free }`";
        here.add(codes::RESERVED_NAME, message, hint);
    } else if BUILT_IN_IDENTITIES.contains(&name) {
        let message = format!("the identity {} is built in and cannot be declared", quoted(name));
        here.add(codes::RESERVED_NAME, message, "choose another name");
    } else if !syntax::is_identity_name(name) {
        let message = format!("{} is not a valid name of an identity", quoted(name));
        let hint = "begin with a lower-case letter; use lower-case letters, digits and `_`, at most 64 characters";
        here.add(codes::BAD_NAME, message, hint);
    }
}

fn source(source: &IdentitySource, here: &mut Reporter<'_>) {
    let mut here = here.member(member_of(source));
    match source {
        IdentitySource::Header(name) | IdentitySource::Cookie(name) => here.header(name),
        IdentitySource::Query(name) => here.text(name, "the name of a query parameter"),
        IdentitySource::Jwt(claim) => here.text(claim, "the name of a claim"),
        IdentitySource::Value(value) => here.text(value, "a value"),
        IdentitySource::PathSegment(segment) => here.range(*segment as u64, 1..=u64::MAX, "a segment's number"),
        IdentitySource::Peer | IdentitySource::Bearer | IdentitySource::First(_) | IdentitySource::Given => {}
    }
}

fn needs_key(source: &IdentitySource, trusted: bool, policy: &Policy, here: &mut Reporter<'_>) {
    if !matches!(source, IdentitySource::Jwt(_)) {
        return;
    }
    let mut here = here.member("jwt");
    if cfg!(not(feature = "jwt")) {
        let message = "this program was built without the feature `jwt`, so it cannot read tokens";
        here.add(codes::JWT_NOT_BUILT, message, "build the program with the feature `jwt`, or use another source");
    } else if policy.jwt.is_none() && !trusted {
        let hint = "add `jwt:` with an algorithm and a key at the top level\nor add `trusted: true` if a gateway in front verifies the token";
        let message = "the policy has no key to verify the token of this claim";
        here.add(codes::JWT_WITHOUT_KEY, message, hint);
    }
}

fn on_invalid(identity: &Identity, here: &mut Reporter<'_>) {
    let has_token = matches!(identity.source, IdentitySource::Jwt(_) | IdentitySource::Bearer);
    if identity.on_invalid != OnInvalid::default() && !has_token {
        let message = "`on_invalid` works only with `jwt` and `bearer`";
        here.member("on_invalid").add(codes::MISPLACED_MEMBER, message, "remove it: only tokens can be invalid");
    }
}

fn tier(tier: &Tier, policy: &Policy, names: &IdentityNames<'_>, here: &mut Reporter<'_>) {
    here.member("default").text(&tier.default, "a tier");
    match &tier.source {
        TierSource::Direct(direct) => {
            source(direct, here);
            needs_key(direct, tier.trusted, policy, here);
            if let IdentitySource::First(_) = direct {
                let message = "a tier cannot be the first of several identities";
                here.member("first").add(codes::MISPLACED_MEMBER, message, "use one source");
            }
        }
        TierSource::Listed { by, tiers } => {
            if by == TIER {
                let message = "the tier cannot be looked up by the tier itself";
                here.member("by").add(codes::UNKNOWN_IDENTITY, message, "name another identity in `by`");
            } else if names.with_listed(std::iter::once(by.as_str())).contains(&TIER) {
                let message =
                    format!("the tier cannot be looked up by {}: its list contains the tier itself", quoted(by));
                let hint = "name another identity in `by`, or remove `tier` from the list";
                here.member("by").add(codes::CIRCULAR_TIER, message, hint);
            } else {
                names.check(by, &mut here.member("by"));
            }
            let mut here = here.member("map");
            for (value, tier) in tiers {
                let mut here = here.member(value);
                names.check_pattern(by, value, &mut here);
                here.text(tier, "a tier");
            }
        }
    }
}

/// Checks `deny` or `allow`.
fn access(list: &AccessList, names: &IdentityNames<'_>, here: &mut Reporter<'_>) {
    for (name, patterns) in &list.identities {
        let mut here = here.member(name);
        if name == "client_ip" {
            let message = "addresses are compared as networks, not as text";
            here.add(codes::MISPLACED_MEMBER, message, "move them to the list of networks");
            continue;
        }
        names.check(name, &mut here);
        here.not_empty(patterns, "text");
        names.check_patterns(name, patterns, &mut here);
    }
}

/// Reports the first cycle of `first` lists. Chains may be long, so this does not recurse.
fn cycles(policy: &Policy, names: &IdentityNames<'_>, here: &mut Reporter<'_>) {
    let listed = |name: &str| match names.source(name) {
        Some(IdentitySource::First(others)) => others.as_slice(),
        _ => &[],
    };
    // `chain` leads from one list to the next. An identity that was followed to its end is in no cycle.
    let (mut in_chain, mut known) = (HashSet::new(), HashSet::new());
    for identity in &policy.identities {
        let mut chain = vec![(identity.name.as_str(), listed(&identity.name).iter())];
        in_chain.insert(identity.name.as_str());
        while let Some((name, others)) = chain.last_mut() {
            match others.next() {
                Some(other) if in_chain.contains(other.as_str()) => {
                    let through = chain.iter().skip_while(|(name, _)| name != other).nth(1);
                    let through = through.map_or_else(String::new, |(name, _)| format!(", through {}", quoted(name)));
                    let message = format!("{} refers to itself{through}", quoted(other));
                    let hint = "break the cycle: remove one of the names";
                    return here.member(other).member("first").add(codes::CIRCULAR_FIRST, message, hint);
                }
                Some(other) if known.insert(other.as_str()) => {
                    chain.push((other, listed(other).iter()));
                    in_chain.insert(other);
                }
                Some(_) => {}
                None => {
                    in_chain.remove(name);
                    chain.pop();
                }
            }
        }
    }
}

/// The shortest key under `secrets`, in bytes. It is generated for the deployment, so it can resist brute force.
const SHORTEST_SECRET_KEY: usize = 32;

/// The shortest shared secret of tokens, in bytes. A shorter one can be found from one token by brute force.
const SHORTEST_JWT_SECRET: usize = 16;

/// Checks the keys that hash secrets and verify tokens.
pub(super) fn secrets(policy: &Policy, top: &mut Reporter<'_>) {
    if let Some(key) = policy.secret_key.as_ref().filter(|key| key.0.len() < SHORTEST_SECRET_KEY) {
        let message = format!("the key has {} bytes, and at least {SHORTEST_SECRET_KEY} are required", key.0.len());
        let hint = "generate a key: openssl rand -hex 32";
        top.member("secrets").add(codes::SHORT_SECRET, message, hint);
    }
    if let Some(jwt) = &policy.jwt {
        jwt_keys(jwt, &mut top.member("jwt"));
    }
    for identity in policy.identities.iter().filter(|identity| identity.secret) {
        if let IdentitySource::First(_) = identity.source {
            let message = "`secret` cannot be combined with `first`: a list is as secret as its identities";
            let hint = "add `secret: true` to the identities in the list";
            top.member("identity").member(&identity.name).member("secret").add(codes::MISPLACED_MEMBER, message, hint);
        }
    }
}

fn jwt_keys(jwt: &JwtSettings, here: &mut Reporter<'_>) {
    if jwt.keys.is_empty() || jwt.keys.len() > MAX_JWT_KEYS {
        let message =
            format!("the number of keys that verify tokens must be from 1 to {MAX_JWT_KEYS}, found {}", jwt.keys.len());
        here.add(codes::OUT_OF_RANGE, message, "keep the keys whose tokens are still valid");
    }
    let mut known = HashSet::new();
    for key in &jwt.keys {
        if let Some(kid) = &key.kid
            && !known.insert((kid, key.algorithm))
        {
            let message = format!("two keys have the `kid` {} and the same algorithm", quoted(kid));
            here.add(codes::DUPLICATE_NAME, message, "keep one of them");
        }
        match &key.key {
            KeyMaterial::Written(written) if written.is_empty() => {
                here.add(codes::MISSING_SECRET, "the key that verifies tokens is empty", "");
            }
            KeyMaterial::Written(secret) if recommended_bytes(key).is_some() && secret.len() < SHORTEST_JWT_SECRET => {
                let message = format!(
                    "the shared secret has {} bytes, and at least {SHORTEST_JWT_SECRET} are required",
                    secret.len()
                );
                here.add(codes::SHORT_SECRET, message, "have the issuer generate a longer one");
            }
            _ => {}
        }
    }
}

/// Returns the recommended and the actual length of a shared secret that is too short, in bytes.
pub(super) fn weak_jwt_secret(key: &JwtKey) -> Option<(usize, usize)> {
    match (recommended_bytes(key), &key.key) {
        (Some(recommended), KeyMaterial::Written(secret)) if secret.len() < recommended => {
            Some((recommended, secret.len()))
        }
        _ => None,
    }
}

/// Returns the recommended length of a shared secret in bytes: that of the hash, as RFC 7518 requires.
fn recommended_bytes(key: &JwtKey) -> Option<usize> {
    match key.algorithm {
        JwtAlgorithm::Hs256 => Some(32),
        JwtAlgorithm::Hs384 => Some(48),
        JwtAlgorithm::Hs512 => Some(64),
        _ => None,
    }
}
