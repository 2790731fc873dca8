//! The encoding of keys as text: readable, and never the same for two different clients.
//!
//! The parts of a key are separated by bars. Ambiguous bytes are escaped as `\xNN`: the bar and the backslash, braces
//! (hash tags in Redis Cluster), and all bytes that are not printable ASCII.

use sha2::{Digest, Sha256};
use smallvec::SmallVec;

/// The keys of a request, one after the other.
pub(crate) type KeyBuffer = SmallVec<[u8; 128]>;

/// The largest value that is written in full. Longer ones are shortened, so that a client cannot increase the memory of
/// a key. They are never dropped, because that would make the rule avoidable.
const MAX_VALUE_BYTES: usize = 256;

/// The length of the prefix that is kept of a long value.
const SHOWN_BYTES: usize = 64;

/// Whether a value is written to a key unchanged: it is short and needs no escapes. May return false for such values,
/// too.
#[inline(always)]
pub(crate) fn is_verbatim(value: &[u8]) -> bool {
    value.len() <= MAX_VALUE_BYTES && is_all_plain(value)
}

/// Begins another part.
#[inline]
pub(crate) fn push_separator(keys: &mut KeyBuffer) {
    keys.push(b'|');
}

/// Writes the name of the identity that was found, for a list. Names contain no `=`, so the end of the name is
/// unambiguous.
pub(crate) fn push_name(keys: &mut KeyBuffer, name: &str) {
    push_escaped(keys, name.as_bytes());
    keys.push(b'=');
}

/// Writes a value. A long value is written as its beginning, then `\#`, which is not an escape, its length and its
/// SHA-256. The result is the same on every instance, and collisions cannot be found.
#[inline]
pub(crate) fn push_value(keys: &mut KeyBuffer, value: &[u8]) {
    if value.len() <= MAX_VALUE_BYTES {
        return push_escaped(keys, value);
    }
    push_escaped(keys, &value[..SHOWN_BYTES]);
    keys.extend_from_slice(format!("\\#{}:", value.len()).as_bytes());
    for byte in Sha256::digest(value) {
        push_hex(keys, byte);
    }
}

/// The prefix of the client's address in a key whose value is unusable. No encoded value begins with it, because
/// backslashes are escaped.
pub(crate) const UNUSABLE: &str = "\\unusable:";

/// Writes the replacement of an unusable value.
pub(crate) fn push_unusable(keys: &mut KeyBuffer, address: &[u8]) {
    keys.extend_from_slice(UNUSABLE.as_bytes());
    push_escaped(keys, address);
}

#[inline]
fn push_escaped(keys: &mut KeyBuffer, text: &[u8]) {
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

pub(crate) fn push_hex(keys: &mut KeyBuffer, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    keys.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

/// Whether each byte needs no escape. A table, because every byte of every key is checked.
static PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = b' ';
    while byte <= b'~' {
        plain[byte as usize] = !matches!(byte, b'\\' | b'|' | b'{' | b'}');
        byte += 1;
    }
    plain
};

/// Whether a text certainly needs no escapes, checked eight bytes at a time. Also false for a tilde in a text of more
/// than three bytes.
#[inline(always)]
fn is_all_plain(text: &[u8]) -> bool {
    if let (Some(first), Some(last)) = (text.first_chunk::<8>(), text.last_chunk::<8>()) {
        let escapes = escape_bits(u64::from_le_bytes(*first)) | escape_bits(u64::from_le_bytes(*last));
        return escapes == 0 && (text.len() <= 16 || is_rest_plain(text));
    }
    if let (Some(first), Some(last)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        return escape_bits(u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last))) == 0;
    }
    text.iter().all(|byte| is_plain(*byte))
}

/// The same for the bytes after the first eight of a long text.
fn is_rest_plain(text: &[u8]) -> bool {
    text[8..].as_chunks().0.iter().fold(0, |escapes, word| escapes | escape_bits(u64::from_le_bytes(*word))) == 0
}

/// Returns a value other than 0 if a byte of the word is below the space, a backslash, or `{` or above.
#[inline]
fn escape_bits(word: u64) -> u64 {
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
        let mut keys = KeyBuffer::new();
        for (index, part) in parts.iter().enumerate() {
            if index > 0 {
                push_separator(&mut keys);
            }
            push_value(&mut keys, part);
        }
        String::from_utf8(keys.to_vec()).unwrap()
    }

    #[test]
    fn ambiguous_bytes_are_escaped() {
        assert_eq!(key(&[b"alice", b"/a b"]), "alice|/a b");
        assert_eq!(key(&[b"a|b"]), r"a\x7cb");
        assert_eq!(key(&[br"a\x7cb"]), r"a\x5cx7cb");
        assert_eq!(key(&[b"{a}\r\n\0"]), r"\x7ba\x7d\x0d\x0a\x00");
        assert_eq!(key(&["é".as_bytes()]), r"\xc3\xa9");
    }

    #[test]
    fn long_values_are_shortened_and_remain_distinct() {
        let a = vec![b'a'; 300];
        let mut b = a.clone();
        b[299] = b'b';
        assert_eq!(key(&[&a[..256]]).len(), 256);
        assert!(key(&[&a]).starts_with(&format!(r"{}\#300:", "a".repeat(64))));
        assert_eq!(key(&[&a]).len(), 64 + 6 + 64);
        assert_ne!(key(&[&a]), key(&[&b]));
        // A client cannot send the short form of another client's long value.
        assert_ne!(key(&[key(&[&a]).as_bytes()]), key(&[&a]));
    }
}
