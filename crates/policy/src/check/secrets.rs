//! Keys that could be found by trying.

use super::codes;
use super::problems::Problems;
use crate::model::{IdentitySource, JwtAlgorithm, JwtKey, Policy};
use crate::problem::Place;

/// The key of a deployment is made for it, so it may as well be beyond all trying.
const SHORTEST_SECRET_KEY: usize = 32;

/// Below this a shared secret can be found by whoever has one token.
const SHORTEST_JWT_SECRET: usize = 16;

pub(super) fn check(policy: &Policy, problems: &mut Problems) {
    if let Some(key) = policy.secret_key.as_ref().filter(|key| key.0.len() < SHORTEST_SECRET_KEY) {
        let message = format!("the key has {} bytes, and must have at least {SHORTEST_SECRET_KEY}", key.0.len());
        let hint = "`openssl rand -hex 32` makes one";
        problems.add(codes::SHORT_SECRET, Place::top().member("secrets"), message, hint);
    }
    if let Some(length) = policy.jwt.as_ref().and_then(shared_secret).filter(|length| *length > 0)
        && length < SHORTEST_JWT_SECRET
    {
        let message = format!("the shared secret has {length} bytes, and must have at least {SHORTEST_JWT_SECRET}");
        problems.add(codes::SHORT_SECRET, Place::top().member("jwt"), message, "let the issuer make a longer one");
    }
    for identity in policy.identities.iter().filter(|identity| identity.secret) {
        if let IdentitySource::First(_) = identity.source {
            let place = Place::top().member("identity").member(&identity.name).member("secret");
            let message = "a list of identities is as secret as those in it";
            problems.add(codes::MISPLACED_MEMBER, place, message, "write `secret: true` where they are declared");
        }
    }
}

/// How long a shared secret should be, and how long it is, if it is shorter: as long as the hash, as RFC 7518 has it.
pub(super) fn weak_jwt_secret(jwt: &JwtKey) -> Option<(usize, usize)> {
    let wanted = match jwt.algorithm {
        JwtAlgorithm::Hs256 => 32,
        JwtAlgorithm::Hs384 => 48,
        JwtAlgorithm::Hs512 => 64,
        _ => return None,
    };
    (jwt.key.len() < wanted).then_some((wanted, jwt.key.len()))
}

/// The length of the secret, where issuer and verifier share one.
fn shared_secret(jwt: &JwtKey) -> Option<usize> {
    let is_shared = matches!(jwt.algorithm, JwtAlgorithm::Hs256 | JwtAlgorithm::Hs384 | JwtAlgorithm::Hs512);
    is_shared.then_some(jwt.key.len())
}
