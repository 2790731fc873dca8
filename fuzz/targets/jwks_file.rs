//! Reading any bytes as a JSON Web Key Set returns its keys or an error, and the type of each key fits its algorithm.
//! The set comes from an identity provider.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_policy::model::{JwtAlgorithm, JwtKey, KeyMaterial, MAX_JWT_KEYS};

fuzz_target!(|data: &[u8]| {
    match JwtKey::from_jwks(data) {
        Ok(keys) => {
            assert!((1..=MAX_JWT_KEYS).contains(&keys.len()), "{} keys", keys.len());
            keys.iter().for_each(check);
        }
        Err(error) => {
            let error = error.to_string();
            assert!(!error.is_empty() && !error.chars().any(char::is_control), "{error:?}");
            assert!(error.chars().count() < 2_000, "{error}");
        }
    }
});

/// Asserts that the key fits its algorithm: no public key has an algorithm of shared secrets, nor the other way round.
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
