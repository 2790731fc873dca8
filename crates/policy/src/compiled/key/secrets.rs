//! Hashes credentials. Keys contain them only as HMACs under the deployment's key, and stores, logs and operators see
//! only keys.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::compiled::key::key_bytes::{self, KeyBuffer};
use crate::model::SecretKey;

/// The prefix of a hashed value.
const PREFIX: &str = "hmac:";

/// The part of a hash that is kept: 128 bits, so that no two values have the same key.
const KEPT_BYTES: usize = 16;

/// The key of deployments without one. It is the same on every instance, so that they share counters. Values can then
/// be found by brute force.
const NO_KEY: &[u8] = b"tollgate: a deployment without a key for secrets";

/// The message whose code is the fingerprint of a key. No header value contains a zero byte, so it is never a value.
const FINGERPRINTED: &[u8] = b"tollgate\0the fingerprint of this key";

/// Hashes the values of secret identities.
#[derive(Debug)]
pub(crate) struct Secrets {
    key: HmacKey,
    fingerprint: String,
}

impl Secrets {
    pub(crate) fn new(key: Option<&SecretKey>) -> Secrets {
        let has_key = key.is_some();
        let key = HmacKey::new(key.map_or(NO_KEY, |key| &key.0));
        let fingerprint = if has_key {
            key.code(FINGERPRINTED)[..8].iter().map(|byte| format!("{byte:02x}")).collect()
        } else {
            "none".to_owned()
        };
        Secrets { key, fingerprint }
    }

    /// Returns the fingerprint of the key, which distinguishes keys and reveals nothing about them; `none` without a
    /// key.
    pub(crate) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Writes the hash of a value to a key.
    pub(crate) fn push(&self, keys: &mut KeyBuffer, value: &[u8]) {
        keys.extend_from_slice(PREFIX.as_bytes());
        for byte in &self.key.code(value)[..KEPT_BYTES] {
            key_bytes::push_hex(keys, *byte);
        }
    }

    /// Returns the hash of a value as keys contain it.
    pub(crate) fn hashed(&self, value: &[u8]) -> String {
        let mut hashed = KeyBuffer::new();
        self.push(&mut hashed, value);
        String::from_utf8_lossy(&hashed).into_owned()
    }
}

/// Whether a text has the form of a hashed value.
pub(crate) fn is_hashed(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.strip_prefix(PREFIX).is_some_and(|hash| hash.len() == 2 * KEPT_BYTES && hash.bytes().all(is_digit))
}

/// A key for HMAC-SHA256, a standard function, so that operators can compute the hash of a value with other tools. The
/// key is expanded once. Each code clones the expanded state, which saves half of the hashing.
#[derive(Clone, Debug)]
pub struct HmacKey(Hmac<Sha256>);

impl HmacKey {
    /// Creates a key of these bytes, of any length.
    #[must_use]
    pub fn new(key: &[u8]) -> HmacKey {
        let Ok(expanded) = Hmac::new_from_slice(key) else { unreachable!("HMAC takes keys of every length") };
        HmacKey(expanded)
    }

    /// Returns the authentication code of a message.
    #[must_use]
    pub fn code(&self, message: &[u8]) -> [u8; 32] {
        self.0.clone().chain_update(message).finalize().into_bytes().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected value is from `printf alice | openssl dgst -sha256 -hmac KEY`, the first 32 digits.
    #[test]
    fn hashed_value_equals_that_of_openssl() {
        let secrets = Secrets::new(Some(&SecretKey(b"0123456789abcdef0123456789abcdef".to_vec())));
        let hashed = secrets.hashed(b"alice");
        assert_eq!(hashed, "hmac:433deb45467e4e53dbaba594c88bc3a2");
        assert!(is_hashed(&hashed));
        for other in ["hmac:", "alice", "hmac:433DEB45467E4E53DBABA594C88BC3A2", &format!("{hashed}0")] {
            assert!(!is_hashed(other), "{other}");
        }
    }

    #[test]
    fn fingerprints_distinguish_keys_and_instances_without_a_key_agree() {
        let of = |key: &[u8]| Secrets::new(Some(&SecretKey(key.to_vec())));
        assert_ne!(of(&[1; 32]).fingerprint(), of(&[2; 32]).fingerprint());
        assert_eq!(of(&[1; 32]).fingerprint(), of(&[1; 32]).fingerprint());
        assert_eq!(of(&[1; 32]).fingerprint().len(), 16);
        let (one, other) = (Secrets::new(None), Secrets::new(None));
        assert_eq!((one.fingerprint(), one.hashed(b"alice")), ("none", other.hashed(b"alice")));
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The examples of RFC 4231.
    #[test]
    fn codes_equal_the_published_examples() {
        let cases: [(&[u8], &[u8], &str); 3] = [
            (&[0x0b; 20], b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                &[0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
        ];
        for (key, message, expected) in cases {
            assert_eq!(hex(&HmacKey::new(key).code(message)), expected);
        }
    }

    #[test]
    fn debug_output_hides_the_key() {
        assert_eq!(format!("{:?}", HmacKey::new(b"a secret")), "HmacKey(Hmac { ... })");
    }
}
