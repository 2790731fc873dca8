//! Secrets that could be found by trying.

use super::super::codes;
use super::super::names::Names;
use super::super::problems::Problems;
use super::super::secrets::weak_jwt_secret;
use super::super::words::quoted;
use super::identity::with_listed;
use crate::model::{Policy, StoreSettings};
use crate::problem::Place;

pub(super) fn check(policy: &Policy, names: &Names<'_>, problems: &mut Problems) {
    if let Some((wanted, length)) = policy.jwt.iter().flat_map(|jwt| &jwt.keys).find_map(weak_jwt_secret) {
        let message = format!("the shared secret has {length} bytes: less than {wanted} can be found by trying");
        let hint = format!("let the issuer make one of at least {wanted} random bytes");
        problems.add(codes::SHORT_JWT_SECRET, Place::top().member("jwt"), message, hint);
    }
    if policy.secret_key.is_none() && matches!(policy.store, StoreSettings::Redis(_)) {
        without_key(policy, names, problems);
    }
}

/// Instances without a key agree with each other, so it is no error.
fn without_key(policy: &Policy, names: &Names<'_>, problems: &mut Problems) {
    let keys = policy.rules.iter().flat_map(|rule| &rule.key).map(String::as_str);
    let counted = with_listed(keys, names);
    let mut secret = policy.identities.iter().filter(|identity| identity.is_secret());
    let Some(identity) = secret.find(|identity| counted.contains(identity.name.as_str())) else { return };
    let name = quoted(&identity.name);
    let message = format!("values of {name} are on Redis as hashes without a key: short ones can be found by trying");
    let hint = "add `secrets: { key_file: FILE }` with at least 32 random bytes, the same for all instances";
    problems.add(codes::SECRET_WITHOUT_KEY, Place::top().member("identity").member(&identity.name), message, hint);
}
