//! Values that are credentials. They become part of keys only as hashes under
//! the deployment's key, and keys are all that stores, logs and operators see.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::compiled::key::key_bytes::{self, Keys};
use crate::model::SecretKey;

/// What a hashed value begins with.
const MARK: &str = "hmac:";

/// How much of a hash is kept: 128 bits, so that no two values share a key.
const KEPT_BYTES: usize = 16;

/// What stands for a key where a deployment has none: the same on every
/// instance, so that these count together. Values can then be found by trying.
const NO_KEY: &[u8] = b"tollgate: a deployment without a key for secrets";

/// What is hashed in order to tell keys apart, and says nothing about them. No value of a header has a zero byte.
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

    /// Tells keys apart: `none` where there is none.
    pub(crate) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Writes what stands for a value in keys.
    pub(crate) fn push(&self, keys: &mut Keys, value: &[u8]) {
        keys.extend_from_slice(MARK.as_bytes());
        for byte in &self.key.code(value)[..KEPT_BYTES] {
            key_bytes::push_hex(keys, *byte);
        }
    }

    /// What stands for a value in keys, as text.
    pub(crate) fn hashed(&self, value: &[u8]) -> String {
        let mut hashed = Keys::new();
        self.push(&mut hashed, value);
        String::from_utf8_lossy(&hashed).into_owned()
    }
}

/// Whether a text is what keys show instead of a value.
pub(crate) fn is_hashed(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.strip_prefix(MARK).is_some_and(|hash| hash.len() == 2 * KEPT_BYTES && hash.bytes().all(is_digit))
}

/// A key of HMAC-SHA256, with which an operator can find a hashed value with any other tool. It is expanded once.
/// Each code clones the expanded state, which saves half of the hashing.
#[derive(Clone, Debug)]
pub struct HmacKey(Hmac<Sha256>);

impl HmacKey {
    /// The key of these bytes, however many there are.
    #[must_use]
    pub fn new(key: &[u8]) -> HmacKey {
        let Ok(expanded) = Hmac::new_from_slice(key) else { unreachable!("HMAC takes keys of every length") };
        HmacKey(expanded)
    }

    /// The code of a message.
    #[must_use]
    pub fn code(&self, message: &[u8]) -> [u8; 32] {
        self.0.clone().chain_update(message).finalize().into_bytes().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What any other tool says: `printf alice | openssl dgst -sha256 -hmac KEY`, the first 32 digits.
    #[test]
    fn a_value_is_hashed_as_other_tools_do_it() {
        let secrets = Secrets::new(Some(&SecretKey(b"0123456789abcdef0123456789abcdef".to_vec())));
        let hashed = secrets.hashed(b"alice");
        assert_eq!(hashed, "hmac:433deb45467e4e53dbaba594c88bc3a2");
        assert!(is_hashed(&hashed));
        for other in ["hmac:", "alice", "hmac:433DEB45467E4E53DBABA594C88BC3A2", &format!("{hashed}0")] {
            assert!(!is_hashed(other), "{other}");
        }
    }

    #[test]
    fn fingerprints_tell_keys_apart_and_instances_without_one_agree() {
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
    fn the_published_examples_come_out() {
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
