//! Paths that every server takes for the same. Most are such, so it is seen eight bytes at a time.

use crate::compiled::path::normal::without_query;

/// The path of a target without its query, if every server takes it for the same.
#[inline(always)]
pub(in crate::compiled) fn plain(target: &[u8]) -> Option<&[u8]> {
    if target.first() == Some(&b'/') && is_clean(target) { ends_in_name(target) } else { plain_with_query(target) }
}

/// The same for a target that has a query, or something else that is not clean.
#[inline(never)]
fn plain_with_query(target: &[u8]) -> Option<&[u8]> {
    if target.first() != Some(&b'/') {
        return None;
    }
    let path = without_query(target);
    if path.len() < target.len() && is_clean(path) {
        return ends_in_name(path);
    }
    plain_by_byte(target)
}

/// Whether no server drops this byte at the end of a segment. False for the last byte of `.` and `..` as well.
pub(in crate::compiled) fn is_name_end(byte: u8) -> bool {
    !matches!(byte, b'.' | b' ')
}

#[inline(always)]
fn ends_in_name(path: &[u8]) -> Option<&[u8]> {
    path.last().is_some_and(|last| is_name_end(*last)).then_some(path)
}

fn plain_by_byte(target: &[u8]) -> Option<&[u8]> {
    let mut before = b'/';
    for (at, &byte) in target.iter().enumerate() {
        match byte {
            b'?' | b'#' => return is_name_end(before).then(|| &target[..at]),
            b'%' | b';' | b'\\' | 0 => return None,
            b'/' if at > 0 && (before == b'/' || !is_name_end(before)) => return None,
            _ => before = byte,
        }
    }
    is_name_end(before).then_some(target)
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Whether there is certainly nothing in a path that has to be looked at byte by byte. False for some plain paths,
/// and for short ones.
#[inline(always)]
fn is_clean(path: &[u8]) -> bool {
    let (words, rest) = path.as_chunks::<8>();
    let Some(last) = path.last_chunk::<8>() else { return false };
    let (mut odd, mut before) = (0, 0);
    for word in words {
        let (found, ends) = odd_bytes(u64::from_le_bytes(*word), before);
        odd |= found;
        before = ends;
    }
    if !rest.is_empty() {
        // The last eight bytes, some of which were looked at before.
        odd |= odd_bytes(u64::from_le_bytes(*last), 0).0;
    }
    odd == 0
}

/// The bytes of a word that are perhaps not plain: below 0x28 (spaces, `#`, `%` and all that cannot be seen), `;`,
/// `?`, the backslash, and a slash behind a slash or a dot. `before` says whether one of the two stands before the
/// word; the second figure says the same of its end. Each byte is told by its highest bit.
#[inline(always)]
fn odd_bytes(word: u64, before: u64) -> (u64, u64) {
    let low = word.wrapping_sub(ONES * 0x28) & !word;
    // They differ in one bit.
    let query_or_parameter = zero_bytes((word | (ONES * 0x04)) ^ (ONES * 0x3f));
    let backslash = zero_bytes(word ^ (ONES * 0x5c));
    let dot_or_slash = zero_bytes((word | ONES) ^ (ONES * 0x2f));
    let slash = dot_or_slash & word << 7;
    let behind = (dot_or_slash << 8 | before) & slash;
    ((low | query_or_parameter | backslash | behind) & HIGH, dot_or_slash >> 56)
}

/// The lowest byte that is zero, and perhaps bytes of 1 above it.
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
        fn words_and_bytes_agree(target in "/([a-c./]|[a-zA-Z0-9/_.~-]|[?#%;\\\\ \u{0}\u{1}é!-/:-@]){0,40}") {
            prop_assert_eq!(plain(target.as_bytes()), plain_by_byte(target.as_bytes()));
        }

        #[test]
        fn one_odd_byte_is_seen_wherever_it_stands(length in 1_usize..40, at in 1_usize..40, byte in any::<u8>()) {
            let mut target = vec![b'a'; length + 1];
            target[0] = b'/';
            let end = target.len() - 1;
            target[at.min(end)] = byte;
            prop_assert_eq!(plain(&target), plain_by_byte(&target));
        }
    }

    #[test]
    fn usual_paths_are_clean() {
        for path in ["/api/v1/items/17", "/auth/login", "/static/app.js", "/a-b_c~d/e.f/g@h:80", "/abcdefg"] {
            assert!(is_clean(path.as_bytes()), "{path}");
        }
        for path in ["/api//v1/items", "/api/v1./items", "/api/v1%2fitems", "/api/v1?items", "/api/v1;items"] {
            assert!(!is_clean(path.as_bytes()), "{path}");
        }
    }
}
