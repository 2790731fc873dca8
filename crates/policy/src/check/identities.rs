//! Identities, tiers, what verifies them, keys that could be found by trying, and lists of clients by their values.

use std::collections::HashSet;

use super::{Names, Reporter, codes, quoted, syntax};
use crate::model::{
    AccessList, BUILT_IN_IDENTITIES, Identity, IdentitySource, JwtAlgorithm, JwtKey, JwtSettings, KeyMaterial,
    MAX_JWT_KEYS, OnInvalid, Policy, TIER, Tier, TierSource,
};

pub(super) fn check(policy: &Policy, names: &Names<'_>, top: &mut Reporter<'_>) {
    let mut known = HashSet::new();
    let mut here = top.member("identity");
    for identity in &policy.identities {
        let mut here = here.member(&identity.name);
        name(&identity.name, &mut here);
        if !known.insert(&identity.name) {
            let message = format!("the identity {} is declared twice", quoted(&identity.name));
            here.add(codes::DUPLICATE_NAME, message, "give one of the two another name");
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
    circles(policy, names, &mut here);
    let mut client_ip = here.member("client_ip");
    client_ip.member("ipv6_prefix").range(policy.client_ip.ipv6_prefix.into(), 1..=128, "a prefix");
    client_ip.member("ipv4_prefix").range(policy.client_ip.ipv4_prefix.into(), 1..=32, "a prefix");
    if let Some(own) = &policy.tier {
        tier(own, policy, names, &mut here.member(TIER));
    }
    access(&policy.deny, names, &mut top.member("deny"));
    access(&policy.allow, names, &mut top.member("allow"));
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

fn name(name: &str, here: &mut Reporter<'_>) {
    if BUILT_IN_IDENTITIES.contains(&name) || name == TIER {
        let message = format!("the identity {} exists already and cannot be declared", quoted(name));
        here.add(codes::RESERVED_NAME, message, "choose another name");
    } else if !syntax::is_identity_name(name) {
        let message = format!("{} cannot be the name of an identity", quoted(name));
        let hint = "a name begins with a small letter, and has small letters, digits and `_`, at most 64";
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
        here.add(codes::JWT_NOT_BUILT, message, "build it with the feature, or take the value from elsewhere");
    } else if policy.jwt.is_none() && !trusted {
        let hint = "add `jwt:` with an algorithm and a key at the top of the policy\nor add `trusted: true` if somebody in front has verified the token";
        let message = "there is no key to verify the token that this claim is taken from";
        here.add(codes::JWT_WITHOUT_KEY, message, hint);
    }
}

fn on_invalid(identity: &Identity, here: &mut Reporter<'_>) {
    let has_token = matches!(identity.source, IdentitySource::Jwt(_) | IdentitySource::Bearer);
    if identity.on_invalid != OnInvalid::default() && !has_token {
        let message = "`on_invalid` goes with `jwt` or `bearer`";
        here.member("on_invalid").add(codes::MISPLACED_MEMBER, message, "leave it out: only tokens can be invalid");
    }
}

fn tier(tier: &Tier, policy: &Policy, names: &Names<'_>, here: &mut Reporter<'_>) {
    here.member("default").text(&tier.default, "a tier");
    match &tier.source {
        TierSource::Direct(direct) => {
            source(direct, here);
            needs_key(direct, tier.trusted, policy, here);
            if let IdentitySource::First(_) = direct {
                let message = "a tier cannot be the first of several identities";
                here.member("first").add(codes::MISPLACED_MEMBER, message, "take it from one source");
            }
        }
        TierSource::Listed { by, tiers } => {
            if by == TIER {
                let message = "the tier cannot be chosen by the tier itself";
                here.member("by").add(codes::UNKNOWN_IDENTITY, message, "choose it by another identity");
            } else if names.with_listed(std::iter::once(by.as_str())).contains(&TIER) {
                let message = format!("the tier cannot be chosen by {}: the tier itself is in that list", quoted(by));
                let hint = "choose it by another identity, or take `tier` out of the list";
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

/// `deny` or `allow`.
fn access(list: &AccessList, names: &Names<'_>, here: &mut Reporter<'_>) {
    for (name, meant) in &list.identities {
        let mut here = here.member(name);
        if name == "client_ip" {
            let message = "addresses are compared as networks, not as texts";
            here.add(codes::MISPLACED_MEMBER, message, "put them into the list of networks");
            continue;
        }
        names.check(name, &mut here);
        here.not_empty(meant, "text");
        names.check_patterns(name, meant, &mut here);
    }
}

/// Whether `first` leads back to where it began. Chains may be long, so there is no recursion.
fn circles(policy: &Policy, names: &Names<'_>, here: &mut Reporter<'_>) {
    let listed = |name: &str| match names.source(name) {
        Some(IdentitySource::First(others)) => others.as_slice(),
        _ => &[],
    };
    // Those that are on the way lead from one to the next; those that were followed to their ends are on no circle.
    let (mut on_way, mut known) = (HashSet::new(), HashSet::new());
    for identity in &policy.identities {
        let mut way = vec![(identity.name.as_str(), listed(&identity.name).iter())];
        on_way.insert(identity.name.as_str());
        while let Some((name, others)) = way.last_mut() {
            match others.next() {
                Some(other) if on_way.contains(other.as_str()) => {
                    let through = way.iter().skip_while(|(name, _)| name != other).nth(1);
                    let through = through.map_or_else(String::new, |(name, _)| format!(", through {}", quoted(name)));
                    let message = format!("{} leads back to itself{through}", quoted(other));
                    let hint = "break the circle: remove one of the names";
                    return here.member(other).member("first").add(codes::CIRCULAR_FIRST, message, hint);
                }
                Some(other) if known.insert(other.as_str()) => {
                    way.push((other, listed(other).iter()));
                    on_way.insert(other);
                }
                Some(_) => {}
                None => {
                    on_way.remove(name);
                    way.pop();
                }
            }
        }
    }
}

/// The key of a deployment is made for it, so it may as well be beyond all trying.
const SHORTEST_SECRET_KEY: usize = 32;

/// A shorter shared secret can be found from one token, by trying.
const SHORTEST_JWT_SECRET: usize = 16;

pub(super) fn secrets(policy: &Policy, top: &mut Reporter<'_>) {
    if let Some(key) = policy.secret_key.as_ref().filter(|key| key.0.len() < SHORTEST_SECRET_KEY) {
        let message = format!("the key has {} bytes, and must have at least {SHORTEST_SECRET_KEY}", key.0.len());
        let hint = "`openssl rand -hex 32` makes one";
        top.member("secrets").add(codes::SHORT_SECRET, message, hint);
    }
    if let Some(jwt) = &policy.jwt {
        jwt_keys(jwt, &mut top.member("jwt"));
    }
    for identity in policy.identities.iter().filter(|identity| identity.secret) {
        if let IdentitySource::First(_) = identity.source {
            let message = "a list of identities is as secret as those in it";
            let hint = "write `secret: true` where they are declared";
            top.member("identity").member(&identity.name).member("secret").add(codes::MISPLACED_MEMBER, message, hint);
        }
    }
}

fn jwt_keys(jwt: &JwtSettings, here: &mut Reporter<'_>) {
    if jwt.keys.is_empty() || jwt.keys.len() > MAX_JWT_KEYS {
        let message =
            format!("there must be from 1 to {MAX_JWT_KEYS} keys that verify tokens, and are {}", jwt.keys.len());
        here.add(codes::OUT_OF_RANGE, message, "keep those whose tokens are still valid");
    }
    let mut known = HashSet::new();
    for key in &jwt.keys {
        if let Some(kid) = &key.kid
            && !known.insert((kid, key.algorithm))
        {
            let message = format!("there are two keys {} for one algorithm", quoted(kid));
            here.add(codes::DUPLICATE_NAME, message, "keep one of them");
        }
        match &key.key {
            KeyMaterial::Written(written) if written.is_empty() => {
                here.add(codes::MISSING_SECRET, "the key that verifies tokens is empty", "");
            }
            KeyMaterial::Written(secret) if wanted_bytes(key).is_some() && secret.len() < SHORTEST_JWT_SECRET => {
                let message = format!(
                    "the shared secret has {} bytes, and must have at least {SHORTEST_JWT_SECRET}",
                    secret.len()
                );
                here.add(codes::SHORT_SECRET, message, "let the issuer make a longer one");
            }
            _ => {}
        }
    }
}

/// How long a shared secret should be, and how long it is, if it is shorter.
pub(super) fn weak_jwt_secret(key: &JwtKey) -> Option<(usize, usize)> {
    match (wanted_bytes(key), &key.key) {
        (Some(wanted), KeyMaterial::Written(secret)) if secret.len() < wanted => Some((wanted, secret.len())),
        _ => None,
    }
}

/// How long a secret should be that issuer and verifier share: as long as the hash, as RFC 7518 has it.
fn wanted_bytes(key: &JwtKey) -> Option<usize> {
    match key.algorithm {
        JwtAlgorithm::Hs256 => Some(32),
        JwtAlgorithm::Hs384 => Some(48),
        JwtAlgorithm::Hs512 => Some(64),
        _ => None,
    }
}
