//! A set of signing keys comes from an identity provider: whatever it is, the
//! reader says which keys are in it or why there are none, and each key is of a
//! type that its algorithm is for.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_policy::model::{JwtAlgorithm, JwtKey, KeyMaterial, MAX_JWT_KEYS};

fuzz_target!(|data: &[u8]| {
    match JwtKey::from_jwks(data) {
        Ok(keys) => {
            assert!((1..=MAX_JWT_KEYS).contains(&keys.len()), "{} keys", keys.len());
            keys.iter().for_each(check);
        }
        Err(why) => {
            let why = why.to_string();
            assert!(!why.is_empty() && !why.chars().any(char::is_control), "{why:?}");
            assert!(why.chars().count() < 2_000, "{why}");
        }
    }
});

/// No public key is ever for an algorithm of shared secrets, nor the other way round.
fn check(key: &JwtKey) {
    use JwtAlgorithm::{EdDsa, Es256, Es384, Hs256, Hs384, Hs512, Rs256, Rs384, Rs512};
    assert!(key.kid.as_ref().is_none_or(|kid| !kid.is_empty()));
    match (&key.key, key.algorithm) {
        (KeyMaterial::Written(secret), Hs256 | Hs384 | Hs512) => assert!(!secret.is_empty()),
        (KeyMaterial::Rsa { n, e }, Rs256 | Rs384 | Rs512) => assert!(n.len() >= 256 && !e.is_empty()),
        (KeyMaterial::Point(point), Es256) => assert!(point.len() == 65 && point[0] == 4),
        (KeyMaterial::Point(point), Es384) => assert!(point.len() == 97 && point[0] == 4),
        (KeyMaterial::Point(point), EdDsa) => assert_eq!(point.len(), 32),
        (_, algorithm) => panic!("a key of another type for {algorithm:?}"),
    }
    assert!(!format!("{key:?}").contains("key: ["));
}
