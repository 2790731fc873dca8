//! The readings of a request's path: what the servers behind may take it for.
//!
//! axum compares a path as it was sent; others decode it first; nginx then
//! merges slashes and resolves dots, and takes an escaped slash for one; Envoy
//! resolves dots and leaves escaped slashes to others; servers of Java cut
//! parameters off, those of Windows take backslashes for slashes. Which of them
//! is behind is not known here, so a path has all of these readings. A rule that
//! limits applies in any of them; what exempts needs all of them. A login that is
//! none costs its client one unit; a login that is missed makes the rule useless.
//!
//! Every server is taken to decode once: a program that decodes what was
//! decoded before is no reading.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::compiled::path::normal::{
    Escapes, Habits, NormalPath, decode, decode_but, resolve, settle, settle_plain, without_origin, without_query,
};
use crate::compiled::path::plain_path::{is_name_end, plain};
use crate::model::Paths;

/// At least one reading, the most resolved first, each once. Most paths have no other.
#[derive(Debug)]
pub(crate) struct Readings<'a> {
    first: NormalPath<'a>,
    others: Vec<NormalPath<'static>>,
}

impl<'a> Readings<'a> {
    /// The readings of a target. `None` if it is empty: then the path is not known.
    pub(crate) fn of(target: &'a str, paths: Paths) -> Option<Readings<'a>> {
        if target.is_empty() {
            return None;
        }
        let target = without_origin(target.as_bytes());
        Some(match plain(target) {
            Some(path) => Readings { first: one(path, paths), others: Vec::new() },
            None => Readings::of_odd(without_query(target), paths),
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

    /// How many there are.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        1 + self.others.len()
    }

    /// The reading of a number, counted from 0.
    #[inline]
    pub(crate) fn get(&self, number: usize) -> &NormalPath<'a> {
        number.checked_sub(1).and_then(|at| self.others.get(at)).unwrap_or(&self.first)
    }

    /// No more than 24: six ways, with each combination of habits, and two that resolve nothing; of four of the six
    /// there are any only with escaped slashes.
    #[cold]
    fn of_odd(sent: &[u8], paths: Paths) -> Readings<'a> {
        let decoded = decode(sent);
        let habits = habits(&decoded);
        let first = settle(resolve(&decoded, Escapes::Read, habits[0]), paths);
        let mut readings = Readings { first, others: Vec::new() };
        for habits in habits[1..].iter().copied() {
            readings.add(resolve(&decoded, Escapes::Read, habits), paths);
        }
        // A gateway without a habit resolves what it passes on to a server that has it.
        let strict = resolve(&decoded, Escapes::Read, Habits::default());
        readings.add_each(&strict, &habits, paths);
        if has_escaped_slash(sent) {
            readings.add_each(&resolve(sent, Escapes::ReadWithin, Habits::default()), &habits, paths);
            for habits in habits.iter().copied() {
                let passed_on = resolve(sent, Escapes::ReadWithin, habits);
                readings.add(resolve(&passed_on, Escapes::Read, habits), paths);
                readings.add(passed_on, paths);
                readings.add(resolve(sent, Escapes::KeepSlashes, habits), paths);
            }
        }
        readings.add(decoded, paths);
        readings.add(decode_but(sent, may_be_sent), paths);
        readings
    }

    /// What servers with these habits make of a path that was resolved before.
    fn add_each(&mut self, resolved: &[u8], habits: &[Habits], paths: Paths) {
        for habits in habits.iter().copied().filter(|habits| *habits != Habits::default()) {
            self.add(resolve(resolved, Escapes::Read, habits), paths);
        }
    }

    fn add(&mut self, path: Vec<u8>, paths: Paths) {
        let path = settle(path, paths);
        if self.first != path && !self.others.contains(&path) {
            self.others.push(path);
        }
    }
}

fn one(path: &[u8], paths: Paths) -> NormalPath<'_> {
    match settle_plain(path, paths) {
        Some((bytes, slash)) => NormalPath { bytes: Cow::Borrowed(bytes), slash },
        None => settle(path.to_vec(), paths),
    }
}

/// The habits that make a difference to this path, those that do the most first.
fn habits(decoded: &[u8]) -> SmallVec<[Habits; 4]> {
    let is_end = |byte: Option<&u8>| byte.is_none_or(|byte| matches!(byte, b'/' | b'\\' | b';' | 0));
    let drops_at = |at: usize, byte: u8| !is_name_end(byte) && is_end(decoded.get(at + 1));
    let lenient = decoded.iter().enumerate().any(|(at, byte)| matches!(byte, b'\\' | 0) || drops_at(at, *byte));
    let parameters = decoded.contains(&b';');
    let mut habits = SmallVec::new();
    for lenient in [true, false].into_iter().filter(|has| lenient || !has) {
        for parameters in [true, false].into_iter().filter(|has| parameters || !has) {
            habits.push(Habits { lenient, parameters });
        }
    }
    habits
}

fn has_escaped_slash(sent: &[u8]) -> bool {
    sent.windows(3).any(|escape| escape.eq_ignore_ascii_case(b"%2f") || escape.eq_ignore_ascii_case(b"%5c"))
}

/// Whether a byte can stand in a path as it is. Whatever else a client means it has to escape, so the escape says no
/// more than the byte does.
fn may_be_sent(byte: u8) -> bool {
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
    fn a_plain_path_has_one_reading_and_is_not_copied() {
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
    fn a_gateway_may_resolve_before_a_server_that_cuts_more() {
        for target in ["/app/c/..;/../..;/login", "/app/c/..%20/../..%20/login", "/app/c/..;/%2e%2e/..;/login"] {
            let readings = texts(target, Paths::default());
            assert!(readings.contains(&"/app/login".to_owned()), "{target}: {readings:?}");
        }
    }

    #[test]
    fn the_most_resolved_reading_comes_first_and_each_is_there_once() {
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
    fn case_and_the_last_slash_are_settled_in_every_reading() {
        let keep = Paths { trailing_slash: TrailingSlash::Keep, ignore_case: true };
        assert_eq!(texts("/A/B/", keep), ["/a/b/"]);
        assert_eq!(texts("/A/%42//", keep), ["/a/b/", "/a/b//", "/a/%42//"]);
        let ignore = Paths { trailing_slash: TrailingSlash::Ignore, ignore_case: true };
        assert_eq!(texts("/A/B/", ignore), ["/a/b"]);
    }
}
