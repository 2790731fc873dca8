//! The messages of regions and instances: keys with an amount each, in chunks.

use std::borrow::Borrow;

use sha1::{Digest, Sha1};

/// The most keys in a chunk, so that no call keeps a server busy for long.
pub(super) const KEYS_PER_CHUNK: usize = 1_000;

/// The longest key that is stored as it is. Of longer ones, which clients may choose, the digest is stored, so that the
/// memory for a number of keys is bounded. Keys with the same digest would have the same loans, and still be held to
/// their limits: the rates of all regions are no more than the limit's rate in sum, for any name.
const MAX_KEY_BYTES: usize = 64;

/// A key of a scope, the same in all regions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ScopedKey(Box<[u8]>);

impl ScopedKey {
    /// Joins a scope and a key. The length of the scope is written first, so that different pairs differ.
    #[cfg(test)]
    pub(super) fn new(scope: &str, key: &[u8]) -> ScopedKey {
        let mut bytes = Vec::with_capacity(2 + scope.len() + key.len());
        write_scoped(&mut bytes, scope, key);
        ScopedKey(bytes.into())
    }

    /// Returns the key of bytes written by [`write_scoped`].
    pub(super) fn from_bytes(bytes: &[u8]) -> ScopedKey {
        ScopedKey(bytes.into())
    }

    /// Returns the scope and the key.
    pub(super) fn parts(&self) -> Option<(&str, &[u8])> {
        let (length, rest) = self.0.split_first_chunk::<2>()?;
        let (scope, key) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        Some((str::from_utf8(scope).ok()?, key))
    }
}

impl Borrow<[u8]> for ScopedKey {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for ScopedKey {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Appends the bytes of a [`ScopedKey`].
pub(crate) fn write_scoped(bytes: &mut impl Extend<u8>, scope: &str, key: &[u8]) {
    // Names of rules are much shorter.
    bytes.extend(u16::try_from(scope.len()).unwrap_or(u16::MAX).to_le_bytes());
    bytes.extend(scope.bytes());
    if key.len() > MAX_KEY_BYTES {
        bytes.extend(<[u8; 20]>::from(Sha1::digest(key)));
    } else {
        bytes.extend(key.iter().copied());
    }
}

/// Writes keys and their amounts as chunks.
pub(super) fn encode(amounts: &[(ScopedKey, u64)]) -> Vec<Vec<u8>> {
    let chunk = |amounts: &[(ScopedKey, u64)]| {
        let mut bytes = Vec::new();
        for (key, amount) in amounts {
            bytes.extend(u32::try_from(*amount).unwrap_or(u32::MAX).to_le_bytes());
            bytes.extend(u32::try_from(key.0.len()).unwrap_or(u32::MAX).to_le_bytes());
            bytes.extend(&key.0);
        }
        bytes
    };
    amounts.chunks(KEYS_PER_CHUNK).map(chunk).collect()
}

/// Reads a chunk; `None` if it is malformed.
pub(super) fn decode(mut rest: &[u8]) -> Option<Vec<(ScopedKey, u64)>> {
    let mut amounts = Vec::new();
    while !rest.is_empty() {
        let (amount, after) = rest.split_first_chunk::<4>()?;
        let (length, after) = after.split_first_chunk::<4>()?;
        let (key, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        amounts.push((ScopedKey(key.into()), u64::from(u32::from_le_bytes(*amount))));
        rest = after;
    }
    Some(amounts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_as_they_were_written_and_truncated_chunks_are_malformed() {
        let amounts: Vec<(ScopedKey, u64)> =
            (0..2_500).map(|number: u64| (ScopedKey::new("s", &number.to_le_bytes()), number)).collect();
        let chunks = encode(&amounts);
        assert_eq!(chunks.len(), 3);
        let read: Vec<_> = chunks.iter().flat_map(|chunk| decode(chunk).unwrap()).collect();
        assert_eq!(read, amounts);
        let chunk = encode(&amounts[..1]).remove(0);
        for cut in 1..chunk.len() {
            assert_eq!(decode(&chunk[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn scope_and_key_are_told_apart() {
        assert_eq!(ScopedKey::new("a", b"\0bc").parts(), Some(("a", &b"\0bc"[..])));
        assert_ne!(ScopedKey::new("a", b"bc"), ScopedKey::new("ab", b"c"));
        assert_eq!(ScopedKey::new("a", b"\r\n\0{}\xff").parts(), Some(("a", &b"\r\n\0{}\xff"[..])));
        assert_eq!(ScopedKey::from_bytes(b"\xff\xff").parts(), None);
    }

    #[test]
    fn long_keys_are_stored_as_digests_that_differ() {
        let bytes_of = |key: &[u8]| ScopedKey::new("s", key).parts().unwrap().1.len();
        assert_eq!((bytes_of(&[b'x'; 64]), bytes_of(&[b'x'; 65]), bytes_of(&[b'x'; 8_000])), (64, 20, 20));
        assert_ne!(ScopedKey::new("s", &[b'x'; 65]), ScopedKey::new("s", &[b'x'; 66]));
    }
}
