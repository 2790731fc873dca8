//! Recognises plain paths: those that every server reads in the same way. Most paths are plain, so the check takes
//! eight bytes at a time.

use crate::compiled::path::normal::without_query;

/// Returns the path of a target without its query, if it is plain.
#[inline(always)]
pub(in crate::compiled) fn plain(target: &[u8]) -> Option<&[u8]> {
    if target.first() == Some(&b'/') && is_certainly_plain(target) {
        ends_in_name(target)
    } else {
        plain_with_query(target)
    }
}

/// The same for a target with a query or with other bytes that need a closer check.
#[inline(never)]
fn plain_with_query(target: &[u8]) -> Option<&[u8]> {
    if target.first() != Some(&b'/') {
        return None;
    }
    let path = without_query(target);
    if path.len() < target.len() && is_certainly_plain(path) {
        return ends_in_name(path);
    }
    plain_by_byte(target)
}

/// Whether no server drops this byte at the end of a segment. Also false for the last byte of `.` and `..`.
pub(in crate::compiled) fn is_name_end(byte: u8) -> bool {
    !matches!(byte, b'.' | b' ')
}

#[inline(always)]
fn ends_in_name(path: &[u8]) -> Option<&[u8]> {
    path.last().is_some_and(|last| is_name_end(*last)).then_some(path)
}

/// The same, byte by byte.
fn plain_by_byte(target: &[u8]) -> Option<&[u8]> {
    let mut before = b'/';
    for (index, &byte) in target.iter().enumerate() {
        match byte {
            b'?' | b'#' => return is_name_end(before).then(|| &target[..index]),
            b'%' | b';' | b'\\' | 0 => return None,
            b'/' if index > 0 && (before == b'/' || !is_name_end(before)) => return None,
            _ => before = byte,
        }
    }
    is_name_end(before).then_some(target)
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Whether a path certainly has no byte that needs a closer check. False for some plain paths, and for all short ones.
#[inline(always)]
fn is_certainly_plain(path: &[u8]) -> bool {
    let (words, rest) = path.as_chunks::<8>();
    let Some(last) = path.last_chunk::<8>() else { return false };
    let (mut suspect, mut before) = (0, 0);
    for word in words {
        let (found, ends) = suspect_bytes(u64::from_le_bytes(*word), before);
        suspect |= found;
        before = ends;
    }
    if !rest.is_empty() {
        // The last eight bytes, some of which were checked before.
        suspect |= suspect_bytes(u64::from_le_bytes(*last), 0).0;
    }
    suspect == 0
}

/// Returns the highest bit of each byte of a word that may not be plain: bytes below 0x28 (spaces, `#`, `%` and control
/// characters), `;`, `?`, the backslash, and a slash after a slash or a dot. `before` is whether a slash or a dot
/// precedes the word; the second value of the result is the same for the end of the word.
#[inline(always)]
fn suspect_bytes(word: u64, before: u64) -> (u64, u64) {
    let low = word.wrapping_sub(ONES * 0x28) & !word;
    // The two bytes differ in one bit.
    let query_or_parameter = zero_bytes((word | (ONES * 0x04)) ^ (ONES * 0x3f));
    let backslash = zero_bytes(word ^ (ONES * 0x5c));
    let dot_or_slash = zero_bytes((word | ONES) ^ (ONES * 0x2f));
    let slash = dot_or_slash & word << 7;
    let slash_after = (dot_or_slash << 8 | before) & slash;
    ((low | query_or_parameter | backslash | slash_after) & HIGH, dot_or_slash >> 56)
}

/// Marks the lowest byte that is zero, and perhaps bytes of 1 above it.
#[inline]
fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & HIGH
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn word_and_byte_checks_agree(target in "/([a-c./]|[a-zA-Z0-9/_.~-]|[?#%;\\\\ \u{0}\u{1}é!-/:-@]){0,40}") {
            prop_assert_eq!(plain(target.as_bytes()), plain_by_byte(target.as_bytes()));
        }

        #[test]
        fn suspect_byte_is_found_at_any_position(length in 1_usize..40, index in 1_usize..40, byte in any::<u8>()) {
            let mut target = vec![b'a'; length + 1];
            target[0] = b'/';
            let end = target.len() - 1;
            target[index.min(end)] = byte;
            prop_assert_eq!(plain(&target), plain_by_byte(&target));
        }
    }

    #[test]
    fn usual_paths_pass_the_check_by_words() {
        for path in ["/api/v1/items/17", "/auth/login", "/static/app.js", "/a-b_c~d/e.f/g@h:80", "/abcdefg"] {
            assert!(is_certainly_plain(path.as_bytes()), "{path}");
        }
        for path in ["/api//v1/items", "/api/v1./items", "/api/v1%2fitems", "/api/v1?items", "/api/v1;items"] {
            assert!(!is_certainly_plain(path.as_bytes()), "{path}");
        }
    }
}
