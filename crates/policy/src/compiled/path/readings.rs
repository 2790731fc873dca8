//! The readings of a request's path: the paths that different backends may derive from it.
//!
//! axum compares a path as it was sent. Other servers decode it first. nginx then merges slashes, resolves dot segments
//! and treats an escaped slash as a slash. Envoy resolves dot segments and passes escaped slashes on. Java servers
//! remove path parameters, Windows servers treat backslashes as slashes. The backend is unknown here, so a path has all
//! of these readings. A rule that limits applies if any reading matches; an exemption requires all of them. A request
//! that is wrongly counted as a login costs its client one unit; a login that is not counted makes the rule useless.
//!
//! Every server is assumed to decode once. There is no reading for programs that decode twice.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::compiled::path::normal::{
    Escapes, NormalPath, Quirks, apply_settings, apply_settings_to_plain, decode, decode_but, resolve, without_origin,
    without_query,
};
use crate::compiled::path::plain_path::{is_name_end, plain};
use crate::model::Paths;

/// The distinct readings of a path, at least one, the most resolved first. Most paths have one.
#[derive(Debug)]
pub(crate) struct Readings<'a> {
    first: NormalPath<'a>,
    others: Vec<NormalPath<'static>>,
}

impl<'a> Readings<'a> {
    /// Returns the readings of a target. `None` if the target is empty: the path is then unknown.
    pub(crate) fn of(target: &'a str, paths: Paths) -> Option<Readings<'a>> {
        if target.is_empty() {
            return None;
        }
        let target = without_origin(target.as_bytes());
        Some(match plain(target) {
            Some(path) => Readings { first: plain_reading(path, paths), others: Vec::new() },
            None => Readings::of_ambiguous(without_query(target), paths),
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &NormalPath<'a>> {
        let others: &[NormalPath<'a>] = &self.others;
        std::iter::once(&self.first).chain(others)
    }

    #[inline]
    pub(crate) fn first(&self) -> &NormalPath<'a> {
        &self.first
    }

    /// Returns the number of readings.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        1 + self.others.len()
    }

    /// Returns the reading of a number, counted from 0.
    #[inline]
    pub(crate) fn get(&self, number: usize) -> &NormalPath<'a> {
        number.checked_sub(1).and_then(|index| self.others.get(index)).unwrap_or(&self.first)
    }

    /// Returns the readings of a path that is not plain, at most 24: six ways to resolve it, with each combination of
    /// quirks, four of them only for paths with escaped slashes, and two readings that resolve nothing.
    #[cold]
    fn of_ambiguous(sent: &[u8], paths: Paths) -> Readings<'a> {
        let decoded = decode(sent);
        let quirks = relevant_quirks(&decoded);
        let first = apply_settings(resolve(&decoded, Escapes::Decoded, quirks[0]), paths);
        let mut readings = Readings { first, others: Vec::new() };
        for quirks in quirks[1..].iter().copied() {
            readings.add(resolve(&decoded, Escapes::Decoded, quirks), paths);
        }
        // A gateway without a quirk may resolve the path before it passes it on to a server that has the quirk.
        let strict = resolve(&decoded, Escapes::Decoded, Quirks::default());
        readings.add_each(&strict, &quirks, paths);
        if has_escaped_slash(sent) {
            readings.add_each(&resolve(sent, Escapes::DecodeSegments, Quirks::default()), &quirks, paths);
            for quirks in quirks.iter().copied() {
                let passed_on = resolve(sent, Escapes::DecodeSegments, quirks);
                readings.add(resolve(&passed_on, Escapes::Decoded, quirks), paths);
                readings.add(passed_on, paths);
                readings.add(resolve(sent, Escapes::KeepSlashes, quirks), paths);
            }
        }
        readings.add(decoded, paths);
        readings.add(decode_but(sent, is_path_byte), paths);
        readings
    }

    /// Adds the readings of servers with these quirks of a path that a gateway has resolved.
    fn add_each(&mut self, resolved: &[u8], quirks: &[Quirks], paths: Paths) {
        for quirks in quirks.iter().copied().filter(|quirks| *quirks != Quirks::default()) {
            self.add(resolve(resolved, Escapes::Decoded, quirks), paths);
        }
    }

    fn add(&mut self, path: Vec<u8>, paths: Paths) {
        let path = apply_settings(path, paths);
        if self.first != path && !self.others.contains(&path) {
            self.others.push(path);
        }
    }
}

fn plain_reading(path: &[u8], paths: Paths) -> NormalPath<'_> {
    match apply_settings_to_plain(path, paths) {
        Some((bytes, slash)) => NormalPath { bytes: Cow::Borrowed(bytes), slash },
        None => apply_settings(path.to_vec(), paths),
    }
}

/// Returns the combinations of quirks that can change this path, those with the most quirks first.
fn relevant_quirks(decoded: &[u8]) -> SmallVec<[Quirks; 4]> {
    let is_end = |byte: Option<&u8>| byte.is_none_or(|byte| matches!(byte, b'/' | b'\\' | b';' | 0));
    let drops_at = |index: usize, byte: u8| !is_name_end(byte) && is_end(decoded.get(index + 1));
    let lenient = decoded.iter().enumerate().any(|(index, byte)| matches!(byte, b'\\' | 0) || drops_at(index, *byte));
    let parameters = decoded.contains(&b';');
    let mut quirks = SmallVec::new();
    for lenient in [true, false].into_iter().filter(|has| lenient || !has) {
        for parameters in [true, false].into_iter().filter(|has| parameters || !has) {
            quirks.push(Quirks { lenient, parameters });
        }
    }
    quirks
}

fn has_escaped_slash(sent: &[u8]) -> bool {
    sent.windows(3).any(|escape| escape.eq_ignore_ascii_case(b"%2f") || escape.eq_ignore_ascii_case(b"%5c"))
}

/// Whether a byte may occur unescaped in a path. All other bytes must be escaped, so their escapes and the bytes are
/// equivalent.
fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/%".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TrailingSlash;

    fn texts(target: &str, paths: Paths) -> Vec<String> {
        let readings = Readings::of(target, paths).unwrap();
        readings.iter().map(|path| String::from_utf8_lossy(&path.bytes).into_owned()).collect()
    }

    #[test]
    fn plain_path_has_one_reading_and_is_not_copied() {
        for target in [
            "/",
            "/a/b",
            "/a/b/",
            "/a/b?x=%20",
            "/.well-known",
            "/a/..b",
            "/a.b/c",
            "http://h/a",
            "/a#b",
            "/a?b.",
            "/a:b@c,d=e+f!g~h$i&j'(k)*",
        ] {
            let readings = Readings::of(target, Paths::default()).unwrap();
            assert_eq!(readings.count(), 1, "{target}");
            assert!(matches!(readings.first().bytes, Cow::Borrowed(_)), "{target}");
        }
    }

    #[test]
    fn readings_include_a_gateway_that_resolves_before_a_server_with_quirks() {
        for target in ["/app/c/..;/../..;/login", "/app/c/..%20/../..%20/login", "/app/c/..;/%2e%2e/..;/login"] {
            let readings = texts(target, Paths::default());
            assert!(readings.contains(&"/app/login".to_owned()), "{target}: {readings:?}");
        }
    }

    #[test]
    fn readings_are_distinct_and_the_most_resolved_is_first() {
        for (target, expected) in [
            ("/a%20b", &["/a b"][..]),
            ("/caf%C3%a9", &["/caf\u{e9}"]),
            ("/%61", &["/a", "/%61"]),
            ("/a//b", &["/a/b", "/a//b"]),
            ("/a/./b/", &["/a/b", "/a/./b"]),
            ("/..", &["/", "/.."]),
            ("/a%2Fb", &["/a/b", "/a%2fb"]),
            ("/x%2fz/../y", &["/x/y", "/y", "/x/z/../y", "/x%2fz/../y"]),
            ("/a;b", &["/a", "/a;b"]),
            ("/a.", &["/a", "/a."]),
            ("/a\\b", &["/a/b", "/a\\b"]),
            ("/a%00b", &["/a", "/a\0b"]),
            ("/a%252fb", &["/a%2fb", "/a%252fb"]),
            ("/100%", &["/100%"]),
            ("/%zz%4", &["/%zz%4"]),
            ("a", &["/a"]),
            ("*", &["/*"]),
            ("?x", &["/"]),
            ("http://h", &["/"]),
        ] {
            assert_eq!(texts(target, Paths::default()), expected, "{target}");
        }
        assert!(Readings::of("", Paths::default()).is_none());
    }

    #[test]
    fn case_and_trailing_slash_settings_apply_to_every_reading() {
        let keep = Paths { trailing_slash: TrailingSlash::Keep, ignore_case: true };
        assert_eq!(texts("/A/B/", keep), ["/a/b/"]);
        assert_eq!(texts("/A/%42//", keep), ["/a/b/", "/a/b//", "/a/%42//"]);
        let ignore = Paths { trailing_slash: TrailingSlash::Ignore, ignore_case: true };
        assert_eq!(texts("/A/B/", ignore), ["/a/b"]);
    }
}
