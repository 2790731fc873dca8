//! HMAC-SHA256 (RFC 2104), so that an operator who has the key can find a hashed value with any other tool.

use crate::compiled::key::sha256::{Sha256Behind, sha256};

const BLOCK_BYTES: usize = 64;

/// A key, and what of its codes is the same for all messages: that is half of the work.
#[derive(Clone)]
pub struct HmacKey {
    inner: Sha256Behind,
    outer: Sha256Behind,
}

impl HmacKey {
    /// The key of these bytes, however many there are.
    #[must_use]
    pub fn new(key: &[u8]) -> HmacKey {
        let mut block = [0; BLOCK_BYTES];
        if key.len() > BLOCK_BYTES {
            block[..32].copy_from_slice(&sha256(key));
        } else {
            block[..key.len()].copy_from_slice(key);
        }
        let padded = |pad: u8| Sha256Behind::new(&block.map(|byte| byte ^ pad));
        HmacKey { inner: padded(0x36), outer: padded(0x5c) }
    }

    /// The code of a message.
    #[must_use]
    pub fn code(&self, message: &[u8]) -> [u8; 32] {
        self.outer.sha256(&self.inner.sha256(message))
    }
}

/// Never shows the key.
impl std::fmt::Debug for HmacKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HmacKey").finish_non_exhaustive()
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
}
