//! HMAC-SHA256, so that an operator who has the key can find a hashed value with any other tool.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// A key that is expanded once. Each code clones the expanded state, which saves half of the hashing.
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
