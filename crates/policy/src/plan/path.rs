//! Paths made comparable, once, before anything is matched.
//!
//! A backend decodes, merges and resolves a path before it looks for a handler.
//! Whatever leads to the same handler must meet the same rules, or a rule is
//! walked around with `//auth/login`, `/auth/%6cogin` or `/auth/x/../login`. So
//! all of it is done here, also for `%2F`: to take `/auth%2flogin` for a
//! login where the backend does not costs a stranger one unit, the reverse
//! would cost the rule its meaning.

use std::borrow::Cow;

use crate::model::{Paths, TrailingSlash};

/// A path that can be compared byte by byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NormalPath<'a> {
    /// Begins with a slash. Its last byte is one only if slashes at the end mean something, or if it is the root.
    pub(super) bytes: Cow<'a, [u8]>,
    /// Whether it ended in a slash, and thus lies below the path without it.
    pub(super) slash: bool,
}

impl NormalPath<'_> {
    /// What stands between the slashes. The root has no segments.
    pub(super) fn segments(&self) -> impl Iterator<Item = &[u8]> {
        let rest = &self.bytes[1..];
        let count = if rest.is_empty() { 0 } else { usize::MAX };
        rest.split(|byte| *byte == b'/').take(count)
    }
}

/// Normalises the target of a request, or a pattern. `None` if it is empty: then the path is not known.
pub(super) fn normalise(target: &str, paths: Paths) -> Option<NormalPath<'_>> {
    if target.is_empty() {
        return None;
    }
    let target = without_origin(target.as_bytes());
    if let Some(path) = plain(target, paths.ignore_case) {
        return Some(without_slash(path, paths.trailing_slash));
    }
    Some(resolve(&decode(without_query(target)), paths))
}

/// What lies behind `http://host` where a client sends the whole of it, as to a proxy.
fn without_origin(target: &[u8]) -> &[u8] {
    if target[0] == b'/' {
        return target;
    }
    let scheme = target.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte)).count();
    let Some(authority) = target[scheme..].strip_prefix(b"://") else { return target };
    if scheme == 0 {
        return target;
    }
    let host = authority.iter().take_while(|byte| !b"/?#".contains(byte)).count();
    &authority[host..]
}

/// A question mark ends a path before anything is decoded; `%3F` does not.
fn without_query(target: &[u8]) -> &[u8] {
    let end = target.iter().position(|byte| matches!(byte, b'?' | b'#'));
    &target[..end.unwrap_or(target.len())]
}

/// The path, if nothing in it needs to be rewritten except for a slash at the end. Most paths are such.
fn plain(target: &[u8], ignore_case: bool) -> Option<&[u8]> {
    if target.first() != Some(&b'/') {
        return None;
    }
    for (at, byte) in target.iter().enumerate() {
        match byte {
            b'?' | b'#' => return Some(&target[..at]),
            b'%' => return None,
            b'/' if begins_badly(&target[at + 1..]) => return None,
            b'A'..=b'Z' if ignore_case => return None,
            _ => {}
        }
    }
    Some(target)
}

/// Whether the segment that begins here is empty, though not the last, or is `.` or `..`.
fn begins_badly(rest: &[u8]) -> bool {
    match rest {
        [b'/', ..] => true,
        [b'.', rest @ ..] => matches!(rest.strip_prefix(b".").unwrap_or(rest).first(), None | Some(b'/' | b'?' | b'#')),
        _ => false,
    }
}

fn without_slash(path: &[u8], trailing_slash: TrailingSlash) -> NormalPath<'_> {
    let slash = path.last() == Some(&b'/');
    let drop = slash && path.len() > 1 && trailing_slash == TrailingSlash::Ignore;
    NormalPath { bytes: Cow::Borrowed(&path[..path.len() - usize::from(drop)]), slash }
}

/// Decodes once. What is no escape stays as it is.
pub(super) fn decode(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        let escaped = if first == b'%' { after.first_chunk().and_then(|digits| hex_byte(*digits)) } else { None };
        decoded.push(escaped.unwrap_or(first));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    decoded
}

fn hex_byte([high, low]: [u8; 2]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? << 4 | digit(low)?)
}

/// Merges slashes, resolves dots (never above the root), and settles case and the slash at the end.
fn resolve(decoded: &[u8], paths: Paths) -> NormalPath<'static> {
    let mut bytes = Vec::with_capacity(decoded.len() + 1);
    let mut slash = true;
    for segment in decoded.split(|byte| *byte == b'/') {
        slash = matches!(segment, b"" | b"." | b"..");
        match segment {
            b"" | b"." => {}
            b".." => bytes.truncate(bytes.iter().rposition(|byte| *byte == b'/').unwrap_or(0)),
            _ => {
                bytes.push(b'/');
                bytes.extend_from_slice(segment);
            }
        }
    }
    let is_root = bytes.is_empty();
    if is_root || (slash && paths.trailing_slash == TrailingSlash::Keep) {
        bytes.push(b'/');
    }
    if paths.ignore_case {
        bytes.make_ascii_lowercase();
    }
    NormalPath { bytes: Cow::Owned(bytes), slash: slash || is_root }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: Paths = Paths { trailing_slash: TrailingSlash::Keep, ignore_case: false };

    fn normal(target: &str, paths: Paths) -> (String, bool) {
        let path = normalise(target, paths).unwrap();
        (String::from_utf8_lossy(&path.bytes).into_owned(), path.slash)
    }

    #[test]
    fn what_reaches_the_same_handler_is_the_same_path() {
        let cases = [
            ("/auth/login", "/auth/login"),
            ("/auth/login?a=/../b", "/auth/login"),
            ("/auth/login#x", "/auth/login"),
            ("//auth/login", "/auth/login"),
            ("/auth///login", "/auth/login"),
            ("/auth/%6cogin", "/auth/login"),
            ("/auth/%6Cogin", "/auth/login"),
            ("/auth%2flogin", "/auth/login"),
            ("/auth/./login", "/auth/login"),
            ("/auth/x/../login", "/auth/login"),
            ("/auth/x/%2e%2E/login", "/auth/login"),
            ("/auth%2fx%2f..%2flogin", "/auth/login"),
            ("/../../auth/login", "/auth/login"),
            ("/auth/login/", "/auth/login"),
            ("/auth/login//", "/auth/login"),
            ("/auth/login/.", "/auth/login"),
            ("/auth/login/x/..", "/auth/login"),
            ("auth/login", "/auth/login"),
            ("http://example.com/auth/login", "/auth/login"),
            ("HTTP://u@example.com:80//auth/login?x", "/auth/login"),
            ("http://example.com", "/"),
            ("http://example.com?x=1", "/"),
            ("/http://example.com", "/http:/example.com"),
            ("://x", "/:/x"),
            ("*", "/*"),
            ("/", "/"),
            ("//", "/"),
            ("/..", "/"),
            ("?x", "/"),
            ("/.well-known/x", "/.well-known/x"),
            ("/...", "/..."),
            ("/a/..?x", "/"),
            ("/a/.#x", "/a"),
            ("/a/..b", "/a/..b"),
            // Decoded once: what is left is the backend's text, too.
            ("/a%252fb", "/a%2fb"),
            ("/a%3fb", "/a?b"),
            // No escapes.
            ("/100%", "/100%"),
            ("/%zz%4", "/%zz%4"),
            ("/%+1", "/%+1"),
        ];
        for (target, path) in cases {
            assert_eq!(normal(target, Paths::default()).0, path, "{target}");
        }
        assert_eq!(normalise("", Paths::default()), None);
    }

    #[test]
    fn a_slash_at_the_end_is_remembered_or_kept() {
        for (target, ignored, kept, slash) in [
            ("/pay/", "/pay", "/pay/", true),
            ("/pay//", "/pay", "/pay/", true),
            ("/pay/.", "/pay", "/pay/", true),
            ("/pay", "/pay", "/pay", false),
            ("/%70ay", "/pay", "/pay", false),
            ("/", "/", "/", true),
            ("/x/..", "/", "/", true),
        ] {
            assert_eq!(normal(target, Paths::default()), (ignored.to_owned(), slash), "{target}");
            assert_eq!(normal(target, KEEP), (kept.to_owned(), slash), "{target}");
        }
    }

    #[test]
    fn case_counts_unless_it_is_to_be_ignored() {
        let ignoring = Paths { ignore_case: true, ..Paths::default() };
        assert_eq!(normal("/Login", Paths::default()).0, "/Login");
        assert_eq!(normal("/Login", ignoring).0, "/login");
        assert_eq!(normal("/%4Cogin", ignoring).0, "/login");
    }

    #[test]
    fn a_normal_path_is_not_copied() {
        for target in ["/", "/a/b", "/a/b/", "/a/b?x=%20", "/.well-known", "/a/..b", "http://h/a"] {
            assert!(matches!(normalise(target, Paths::default()).unwrap().bytes, Cow::Borrowed(_)), "{target}");
        }
    }

    #[test]
    fn segments_are_between_slashes() {
        let segments = |target, paths| {
            let path = normalise(target, paths).unwrap();
            path.segments().map(|segment| String::from_utf8_lossy(segment).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(segments("/", KEEP), [""; 0]);
        assert_eq!(segments("/a/b", KEEP), ["a", "b"]);
        assert_eq!(segments("/a/", KEEP), ["a", ""]);
        assert_eq!(segments("/a/", Paths::default()), ["a"]);
    }
}
