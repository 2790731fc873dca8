//! Keys as text: readable, and never the same for two different clients.
//!
//! The parts of a key stand between bars. Whatever could be mistaken for
//! something else is written as `\xNN`: the bar and the backslash, braces
//! (which tell Redis Cluster where a key lives), and all that cannot be seen.

use sha2::{Digest, Sha256};
use smallvec::SmallVec;

/// The keys of a request, one behind the other.
pub(crate) type Keys = SmallVec<[u8; 128]>;

/// Values beyond this are shortened: a key must not cost more memory because a
/// client says more. They are never dropped, which would be a way around the rule.
const MAX_VALUE_BYTES: usize = 256;

/// How much of a long value is still shown.
const SHOWN_BYTES: usize = 64;

/// Whether a value is the same in a key: short, and with nothing to escape. False for some such values.
#[inline(always)]
pub(crate) fn is_written_plain(value: &[u8]) -> bool {
    value.len() <= MAX_VALUE_BYTES && is_all_plain(value)
}

/// Begins another part.
#[inline]
pub(crate) fn push_bar(keys: &mut Keys) {
    keys.push(b'|');
}

/// The name of the identity that was taken among several. Names have no `=`, so what follows cannot be mistaken.
pub(crate) fn push_name(keys: &mut Keys, name: &str) {
    push_escaped(keys, name.as_bytes());
    keys.push(b'=');
}

/// A value. A long one is its beginning, its length and its SHA-256 behind
/// `\#`, which no escape looks like: the same on every instance, and nobody can
/// find two values that share it.
#[inline]
pub(crate) fn push_value(keys: &mut Keys, value: &[u8]) {
    if value.len() <= MAX_VALUE_BYTES {
        return push_escaped(keys, value);
    }
    push_escaped(keys, &value[..SHOWN_BYTES]);
    keys.extend_from_slice(format!("\\#{}:", value.len()).as_bytes());
    for byte in Sha256::digest(value) {
        push_hex(keys, byte);
    }
}

/// What a key has in place of a value that cannot be used, before the client's address. No value looks like it,
/// since a backslash is escaped in all of them.
pub(crate) const UNUSABLE: &str = "\\unusable:";

/// Stands for a value that cannot be used.
pub(crate) fn push_unusable(keys: &mut Keys, address: &[u8]) {
    keys.extend_from_slice(UNUSABLE.as_bytes());
    push_escaped(keys, address);
}

#[inline]
fn push_escaped(keys: &mut Keys, text: &[u8]) {
    if is_all_plain(text) {
        return keys.extend_from_slice(text);
    }
    for &byte in text {
        if is_plain(byte) {
            keys.push(byte);
        } else {
            keys.extend_from_slice(b"\\x");
            push_hex(keys, byte);
        }
    }
}

pub(crate) fn push_hex(keys: &mut Keys, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    keys.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

/// Every byte of every key is asked about, so the answers are written down.
static PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = b' ';
    while byte <= b'~' {
        plain[byte as usize] = !matches!(byte, b'\\' | b'|' | b'{' | b'}');
        byte += 1;
    }
    plain
};

/// Whether there is certainly nothing to escape, seen eight bytes at a time. False as well for a tilde among more
/// than three bytes.
#[inline(always)]
fn is_all_plain(text: &[u8]) -> bool {
    if let (Some(first), Some(last)) = (text.first_chunk::<8>(), text.last_chunk::<8>()) {
        let odd = odd_bytes(u64::from_le_bytes(*first)) | odd_bytes(u64::from_le_bytes(*last));
        return odd == 0 && (text.len() <= 16 || is_plain_between(text));
    }
    if let (Some(first), Some(last)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        return odd_bytes(u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last))) == 0;
    }
    text.iter().all(|byte| is_plain(*byte))
}

/// The same for what stands behind the first eight bytes of a long text.
fn is_plain_between(text: &[u8]) -> bool {
    text[8..].as_chunks().0.iter().fold(0, |odd, word| odd | odd_bytes(u64::from_le_bytes(*word))) == 0
}

/// Not 0 if there is a byte below the space, a backslash, or one from `{` on.
#[inline]
fn odd_bytes(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let low = word.wrapping_sub(ONES * 0x20) & !word;
    let high = word.wrapping_add(ONES * 0x05) | word;
    let backslashes = word ^ (ONES * 0x5c);
    (low | high | (backslashes.wrapping_sub(ONES) & !backslashes)) & HIGH
}

fn is_plain(byte: u8) -> bool {
    PLAIN[usize::from(byte)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(parts: &[&[u8]]) -> String {
        let mut keys = Keys::new();
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                push_bar(&mut keys);
            }
            push_value(&mut keys, part);
        }
        String::from_utf8(keys.to_vec()).unwrap()
    }

    #[test]
    fn what_could_be_mistaken_is_escaped() {
        assert_eq!(key(&[b"alice", b"/a b"]), "alice|/a b");
        assert_eq!(key(&[b"a|b"]), r"a\x7cb");
        assert_eq!(key(&[br"a\x7cb"]), r"a\x5cx7cb");
        assert_eq!(key(&[b"{a}\r\n\0"]), r"\x7ba\x7d\x0d\x0a\x00");
        assert_eq!(key(&["é".as_bytes()]), r"\xc3\xa9");
    }

    #[test]
    fn long_values_are_shortened_and_stay_apart() {
        let a = vec![b'a'; 300];
        let mut b = a.clone();
        b[299] = b'b';
        assert_eq!(key(&[&a[..256]]).len(), 256);
        assert!(key(&[&a]).starts_with(&format!(r"{}\#300:", "a".repeat(64))));
        assert_eq!(key(&[&a]).len(), 64 + 6 + 64);
        assert_ne!(key(&[&a]), key(&[&b]));
        // Nobody can write the short form of somebody else's long value.
        assert_ne!(key(&[key(&[&a]).as_bytes()]), key(&[&a]));
    }
}
