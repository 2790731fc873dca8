//! Normalises the paths of a policy, and has the functions that all readings of a request's path share.
//!
//! The path of a policy has one meaning, so it is decoded and resolved once. The meaning of a request's path depends on
//! the server: see `readings`.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::model::{Paths, TrailingSlash};

/// A path that can be compared byte by byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NormalPath<'a> {
    /// The path, which begins with a slash. A trailing slash is removed if the policy ignores it. The root stays `/`.
    pub(crate) bytes: Cow<'a, [u8]>,
    /// Whether the path ended in a slash, and is thus below the path without it.
    pub(crate) slash: bool,
}

/// Returns the segment of this number, counted from 1. The root has no segments.
pub(crate) fn segment(path: &[u8], number: usize) -> Option<&[u8]> {
    let rest = path.get(1..).filter(|rest| !rest.is_empty())?;
    rest.split(|byte| *byte == b'/').nth(number.checked_sub(1)?)
}

/// Normalises a path of a policy. `None` if it is empty.
pub(crate) fn normalise(text: &str, paths: Paths) -> Option<NormalPath<'static>> {
    if text.is_empty() {
        return None;
    }
    let decoded = decode(without_query(without_origin(text.as_bytes())));
    Some(apply_settings(resolve(&decoded, Escapes::Decoded, Quirks::default()), paths))
}

/// Applies the policy's settings for letter case and trailing slashes to a path.
pub(crate) fn apply_settings(mut path: Vec<u8>, paths: Paths) -> NormalPath<'static> {
    if path.first() != Some(&b'/') {
        path.insert(0, b'/');
    }
    let slash = path.last() == Some(&b'/');
    if slash && path.len() > 1 && paths.trailing_slash == TrailingSlash::Ignore {
        path.pop();
    }
    if paths.ignore_case {
        path.make_ascii_lowercase();
    }
    NormalPath { bytes: Cow::Owned(path), slash }
}

/// The same for a plain path, without copying it. Returns the path and whether it ended in a slash; `None` if letters
/// have to be changed.
#[inline(always)]
pub(crate) fn apply_settings_to_plain(path: &[u8], paths: Paths) -> Option<(&[u8], bool)> {
    if paths.ignore_case && path.iter().any(u8::is_ascii_uppercase) {
        return None;
    }
    let slash = path.last() == Some(&b'/');
    let is_dropped = slash && path.len() > 1 && paths.trailing_slash == TrailingSlash::Ignore;
    Some((&path[..path.len() - usize::from(is_dropped)], slash))
}

/// Returns a target without `http://host`, which clients send to proxies.
pub(crate) fn without_origin(target: &[u8]) -> &[u8] {
    if target.first() == Some(&b'/') {
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

/// Returns a target without its query. A question mark ends the path before decoding; `%3F` does not.
pub(crate) fn without_query(target: &[u8]) -> &[u8] {
    let end = target.iter().position(|byte| matches!(byte, b'?' | b'#'));
    &target[..end.unwrap_or(target.len())]
}

/// Percent-decodes a text once. Invalid escapes are unchanged.
pub(crate) fn decode(text: &[u8]) -> Vec<u8> {
    decode_but(text, |_| false)
}

/// Percent-decodes all escapes except those of bytes for which `is_kept` returns true. Their digits become lower case.
pub(crate) fn decode_but(text: &[u8], is_kept: impl Fn(u8) -> bool) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        let escaped = if first == b'%' { after.first_chunk().and_then(|digits| hex_byte(*digits)) } else { None };
        match escaped {
            Some(byte) if is_kept(byte) => decoded.extend_from_slice(&rest[..3].to_ascii_lowercase()),
            Some(byte) => decoded.push(byte),
            None => decoded.push(first),
        }
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    decoded
}

fn hex_byte([high, low]: [u8; 2]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? << 4 | digit(low)?)
}

/// The treatment of percent escapes while dot segments are resolved.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Escapes {
    /// The text is decoded already.
    Decoded,
    /// Each segment is decoded separately, so that an escaped slash does not end a segment.
    DecodeSegments,
    /// The same, but slashes remain escaped.
    KeepSlashes,
}

/// Differences between servers in reading a path.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Quirks {
    /// As Windows and old C programs do: a backslash is a slash, trailing dots and spaces of a name are dropped, and a
    /// path ends at a zero byte.
    pub(crate) lenient: bool,
    /// As Java servers do: a segment ends at its first semicolon.
    pub(crate) parameters: bool,
}

/// Merges slashes and resolves dot segments. The result begins with a slash. It ends in one if the text ends in a slash
/// or a dot segment.
pub(crate) fn resolve(text: &[u8], escapes: Escapes, quirks: Quirks) -> Vec<u8> {
    let mut path = Vec::with_capacity(text.len() + 1);
    let mut starts: SmallVec<[usize; 16]> = SmallVec::new();
    let mut slash = true;
    for segment in text.split(|byte| *byte == b'/' || (quirks.lenient && *byte == b'\\')) {
        let segment = match escapes {
            _ if !segment.contains(&b'%') => Cow::Borrowed(segment),
            Escapes::Decoded => Cow::Borrowed(segment),
            Escapes::DecodeSegments => Cow::Owned(decode(segment)),
            Escapes::KeepSlashes => Cow::Owned(decode_but(segment, |byte| matches!(byte, b'/' | b'\\'))),
        };
        let (name, is_last) = quirks.name(&segment);
        slash = matches!(name, b"" | b"." | b"..");
        match name {
            b"" | b"." => {}
            // Never above the root.
            b".." => path.truncate(starts.pop().unwrap_or(0)),
            _ => {
                starts.push(path.len());
                path.push(b'/');
                path.extend_from_slice(name);
            }
        }
        if is_last {
            break;
        }
    }
    if slash || path.is_empty() {
        path.push(b'/');
    }
    path
}

impl Quirks {
    /// Returns the name that a server reads from a segment, and whether the path ends with it.
    fn name(self, segment: &[u8]) -> (&[u8], bool) {
        let mut name = segment;
        let mut is_last = false;
        if let Some(end) = name.iter().position(|byte| self.lenient && *byte == 0) {
            (name, is_last) = (&name[..end], true);
        }
        if let Some(end) = name.iter().position(|byte| self.parameters && *byte == b';') {
            name = &name[..end];
        }
        if self.lenient {
            name = trim_end_where(name, |byte| byte == b' ');
            if !matches!(name, b"." | b"..") {
                name = trim_end_where(name, |byte| matches!(byte, b'.' | b' '));
            }
        }
        (name, is_last)
    }
}

fn trim_end_where(name: &[u8], is_dropped: impl Fn(u8) -> bool) -> &[u8] {
    let end = name.iter().rposition(|byte| !is_dropped(*byte)).map_or(0, |last| last + 1);
    &name[..end]
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
    fn policy_path_is_decoded_and_resolved() {
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
            // Decoded once, as a backend does.
            ("/a%252fb", "/a%2fb"),
            ("/a%3fb", "/a?b"),
            // Invalid escapes.
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
    fn trailing_slash_is_reported_and_kept_only_by_setting() {
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
    fn letter_case_is_kept_unless_the_policy_ignores_it() {
        let ignoring = Paths { ignore_case: true, ..Paths::default() };
        assert_eq!(normal("/Login", Paths::default()).0, "/Login");
        assert_eq!(normal("/Login", ignoring).0, "/login");
        assert_eq!(normal("/%4Cogin", ignoring).0, "/login");
    }

    #[test]
    fn segments_are_the_texts_between_slashes() {
        let segments = |target, paths| {
            let path = normalise(target, paths).unwrap();
            let texts = (1..).map_while(|number| segment(&path.bytes, number));
            texts.map(|segment| String::from_utf8_lossy(segment).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(segments("/", KEEP), [""; 0]);
        assert_eq!(segments("/a/b", KEEP), ["a", "b"]);
        assert_eq!(segments("/a/", KEEP), ["a", ""]);
        assert_eq!(segments("/a/", Paths::default()), ["a"]);
    }
}
