//! Keys that could be found by trying.

use std::collections::HashSet;

use super::{Reporter, codes, quoted};
use crate::model::{IdentitySource, JwtAlgorithm, JwtKey, JwtSettings, KeyMaterial, MAX_JWT_KEYS, Policy};

/// The key of a deployment is made for it, so it may as well be beyond all trying.
const SHORTEST_SECRET_KEY: usize = 32;

/// A shorter shared secret can be found from one token, by trying.
const SHORTEST_JWT_SECRET: usize = 16;

pub(super) fn check(policy: &Policy, top: &mut Reporter<'_>) {
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
