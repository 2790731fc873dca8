//! Names of keys on the servers.

use std::borrow::Cow;
use std::sync::Arc;

use smallvec::SmallVec;

/// The name of a key, with the position of its hash tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RedisKeyName {
    pub(crate) bytes: Arc<[u8]>,
    tag_begins: usize,
    tag_ends: usize,
}

impl RedisKeyName {
    /// Builds the name `<prefix><scope>:{<tag>}<rest>`. The tag is the part of the key before the first bar, so that
    /// all rules keyed by the same leading identity share a slot.
    ///
    /// Braces and backslashes are escaped everywhere. So no client can choose a slot, and the first brace of each kind
    /// ends a part, so that different keys have different names.
    pub(crate) fn new(prefix_and_scope: &[u8], key: &[u8]) -> RedisKeyName {
        let bar = key.iter().position(|byte| *byte == b'|').unwrap_or(key.len());
        let (tag, rest) = key.split_at(bar);
        // Most names are short, and are allocated once, when complete.
        let mut bytes: SmallVec<[u8; 128]> = SmallVec::new();
        bytes.extend_from_slice(prefix_and_scope);
        bytes.push(b'{');
        let tag_begins = bytes.len();
        if tag.is_empty() {
            // Redis ignores an empty tag. `\.` is not an escape sequence, so no key of a client can produce it.
            bytes.extend_from_slice(b"\\.");
            bytes.extend_from_slice(prefix_and_scope);
        } else {
            push_escaped(&mut bytes, tag);
        }
        let tag_ends = bytes.len();
        bytes.push(b'}');
        push_escaped(&mut bytes, rest);
        RedisKeyName { bytes: Arc::from(&*bytes), tag_begins, tag_ends }
    }

    /// Returns the hash tag: the bytes between the braces.
    pub(crate) fn tag(&self) -> &[u8] {
        &self.bytes[self.tag_begins..self.tag_ends]
    }
}

/// Returns the hash tag of a key without building the whole name.
pub(crate) fn tag<'a>(prefix_and_scope: &[u8], key: &'a [u8]) -> Cow<'a, [u8]> {
    let ends = key.iter().position(|byte| matches!(byte, b'|' | b'{' | b'}' | b'\\')).unwrap_or(key.len());
    if ends > 0 && matches!(key.get(ends), None | Some(b'|')) {
        return Cow::Borrowed(&key[..ends]);
    }
    Cow::Owned(RedisKeyName::new(prefix_and_scope, key).tag().to_vec())
}

/// Returns the beginning of the names of all keys of a scope.
pub(crate) fn prefix_and_scope(prefix: &str, scope: &str) -> Box<[u8]> {
    let mut bytes: SmallVec<[u8; 128]> = SmallVec::new();
    push_escaped(&mut bytes, prefix.as_bytes());
    push_escaped(&mut bytes, scope.as_bytes());
    bytes.push(b':');
    Box::from(&*bytes)
}

fn push_escaped(bytes: &mut SmallVec<[u8; 128]>, text: &[u8]) {
    if !text.iter().any(|byte| matches!(byte, b'{' | b'}' | b'\\')) {
        return bytes.extend_from_slice(text);
    }
    for &byte in text {
        match byte {
            b'{' => bytes.extend_from_slice(b"\\x7b"),
            b'}' => bytes.extend_from_slice(b"\\x7d"),
            b'\\' => bytes.extend_from_slice(b"\\\\"),
            plain => bytes.push(plain),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(scope: &str, key: &[u8]) -> RedisKeyName {
        RedisKeyName::new(&prefix_and_scope("tollgate:", scope), key)
    }

    fn text(scope: &str, key: &[u8]) -> String {
        String::from_utf8(name(scope, key).bytes.to_vec()).unwrap()
    }

    #[test]
    fn first_identity_is_the_hash_tag() {
        assert_eq!(text("per-user", b"alice"), "tollgate:per-user:{alice}");
        assert_eq!(text("reports", b"alice|/a"), "tollgate:reports:{alice}|/a");
        assert_eq!(name("per-user", b"alice").tag(), name("reports", b"alice|/a").tag());
    }

    #[test]
    fn key_without_a_leading_part_has_its_scope_as_hash_tag() {
        assert_eq!(text("all", b""), "tollgate:all:{\\.tollgate:all:}");
        assert_eq!(text("all", b"|x"), "tollgate:all:{\\.tollgate:all:}|x");
        assert_ne!(name("all", b"").tag(), name("other", b"").tag());
    }

    #[test]
    fn braces_in_scopes_and_keys_are_escaped() {
        assert_eq!(text("s", b"a}{b"), "tollgate:s:{a\\x7d\\x7bb}");
        assert_eq!(text("{s}", b"a"), "tollgate:\\x7bs\\x7d:{a}");
        assert_eq!(name("s", b"a}{b").tag(), b"a\\x7d\\x7bb");
    }

    /// Tests all pairs of short scopes and keys over the bytes with a special meaning.
    #[test]
    fn different_keys_have_different_names() {
        let bytes = [b'{', b'}', b'\\', b'|', b':', b'.', b'a'];
        let texts: Vec<Vec<u8>> = (0..=3_u32)
            .flat_map(|length| {
                (0..bytes.len().pow(length)).map(move |number| {
                    (0..length).map(|place| bytes[number / bytes.len().pow(place) % bytes.len()]).collect()
                })
            })
            .collect();
        let mut seen = std::collections::HashSet::new();
        for scope in texts.iter().filter(|text| text.len() <= 2) {
            for key in &texts {
                let scope = str::from_utf8(scope).unwrap();
                let name = name(scope, key);
                assert_eq!(*tag(&prefix_and_scope("tollgate:", scope), key), *name.tag(), "{scope:?} {key:?}");
                assert!(seen.insert(name.bytes), "{scope:?} {key:?}");
            }
        }
    }
}
