//! The form of words: header names, methods, hosts, paths.
//!
//! What is refused of a path pattern could never match a path: people bring it from routers that know more, and a
//! rule that silently applies to nothing is worse than a message.

use std::ops::RangeInclusive;

use super::{Reporter, codes, quoted};
use crate::model::is_parameter;

/// The longest name of an identity or a rule.
const MAX_NAME: usize = 64;

/// `[a-z][a-z0-9_]*`
pub(super) fn is_identity_name(name: &str) -> bool {
    name.len() <= MAX_NAME
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
}

/// `[A-Za-z0-9][A-Za-z0-9._-]*`
pub(super) fn is_rule_name(name: &str) -> bool {
    name.len() <= MAX_NAME
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

/// What HTTP calls a token: the form of methods and of names of headers and cookies.
fn is_token(text: &str) -> bool {
    let is_tchar = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_tchar)
}

impl Reporter<'_> {
    /// The name of a header or a cookie.
    pub(super) fn header(&mut self, name: &str) {
        if !is_token(name) {
            let message = format!("{} cannot be the name of a header or a cookie", quoted(name));
            let hint = "a name has letters, digits and `-`, no spaces and no colon, such as X-User-ID";
            self.add(codes::BAD_HEADER_NAME, message, hint);
        }
    }

    pub(super) fn method(&mut self, name: &str) {
        if !is_token(name) {
            let hint = "a method is one word such as GET; several are a list: [GET, POST]";
            self.add(codes::BAD_METHOD, format!("{} cannot be a method", quoted(name)), hint);
        }
    }

    /// A text that is shown and compared: not empty, nothing invisible in it.
    pub(super) fn text(&mut self, text: &str, what: &str) {
        if text.is_empty() || text.chars().any(char::is_control) {
            let message = format!("{what} must be a text without control characters, and not empty");
            self.add(codes::BAD_TEXT, message, "remove tabs, line ends and the like");
        }
    }

    pub(super) fn host(&mut self, host: &str) {
        let is_label_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let is_address = host.starts_with('[') && host.ends_with(']') && host.len() > 2;
        let name = host.strip_prefix("*.").unwrap_or(host);
        if is_address || (!name.is_empty() && !name.starts_with('.') && name.chars().all(is_label_char)) {
            return;
        }
        let hint = if host.contains("://") || host.contains('/') {
            "write the host only, without scheme and path"
        } else if host.contains(':') {
            "leave out the port: ports do not count"
        } else if host.contains('*') {
            "a star stands for everything before a dot, as in *.example.com"
        } else {
            "write a name such as api.example.com"
        };
        self.add(codes::BAD_HOST, format!("{} cannot be a host", quoted(host)), hint);
    }

    /// A number within a range.
    pub(super) fn range(&mut self, value: u64, range: RangeInclusive<u64>, what: &str) {
        if !range.contains(&value) {
            let message = format!("{what} must be from {} to {}, and is {value}", range.start(), range.end());
            self.add(codes::OUT_OF_RANGE, message, "");
        }
    }

    /// A list with something in it.
    pub(super) fn not_empty<T>(&mut self, list: &[T], what: &str) {
        if list.is_empty() {
            self.add(codes::EMPTY_LIST, format!("expected at least one {what}"), "");
        }
    }
}

/// What is wrong with a path, and what to write instead.
type Wrong = (&'static str, &'static str);

/// A path pattern.
pub(super) fn check_path(path: &str, here: &mut Reporter<'_>) {
    let wrong = regular_expression(path).or_else(|| no_slash(path)).or_else(|| outside_the_path(path)).or_else(|| {
        let last = path.split('/').count() - 1;
        path.split('/').enumerate().skip(1).find_map(|(at, segment)| in_segment(segment, at == last))
    });
    if let Some((what, hint)) = wrong {
        here.add(codes::BAD_PATH, format!("the path {} {what}", quoted(path)), hint);
    }
}

/// None of these characters is in a path unless it is escaped, except for those that only in pairs mean a repetition.
fn regular_expression(path: &str) -> Option<Wrong> {
    const REPETITIONS: [&str; 7] = [".*", ".+", ".?", ")*", ")+", ")?", "(?"];
    if path.contains('|') {
        return Some(("has alternatives in it", "several paths are a list: [/login, /register]"));
    }
    let is_one = path.contains(['^', '[', ']', '\\'])
        || path.ends_with('$')
        || REPETITIONS.iter().any(|repetition| path.contains(repetition));
    is_one.then_some((
        "looks like a regular expression, and paths are compared segment by segment",
        "`{id}` stands for any one segment, as in /users/{id}, and `/*` at the end for everything below",
    ))
}

fn no_slash(path: &str) -> Option<Wrong> {
    (!path.starts_with('/')).then_some(("does not begin with `/`", "a path is what follows the host: /login or /api/*"))
}

fn outside_the_path(path: &str) -> Option<Wrong> {
    if path.split('/').any(|segment| segment.strip_suffix('?').is_some_and(is_parameter)) {
        return Some(("has a segment that may be missing", "write both paths: [/users, /users/{id}]"));
    }
    if path.contains(['?', '#']) {
        return Some((
            "has a query or a fragment, which are no part of a path",
            "leave out everything from `?` or `#` on",
        ));
    }
    path.chars()
        .any(|c| c.is_control() || c.is_whitespace())
        .then_some(("has spaces or control characters in it", "several paths are a list: [/login, /register]"))
}

fn in_segment(segment: &str, is_last: bool) -> Option<Wrong> {
    Some(match segment {
        "" if !is_last => {
            ("has an empty segment", "paths are normalised before they are compared, so write one `/` only")
        }
        "." | ".." => {
            ("has `.` or `..` in it", "paths are normalised before they are compared, so write the path that is meant")
        }
        "" | "*" => return None,
        _ if is_parameter(segment) => return None,
        _ if is_rest(segment) => {
            ("has a parameter for several segments", "for everything below end the path with `/*`")
        }
        _ if segment.contains('*') => (
            "has a star within a segment",
            "a star stands for a whole segment: /users/*/orders, or for everything below: /api/*",
        ),
        _ if segment.contains(['{', '}']) => braces(segment),
        _ if segment.contains(['<', '>']) => ("has a parameter in angle brackets", "write it in braces: /users/{id}"),
        _ if segment.starts_with(':') => (
            "has a parameter that is not a whole segment",
            "`:id` has letters, digits, `_` and `-`, and stands for a whole segment; a colon itself is `%3A`",
        ),
        _ => return None,
    })
}

/// `**`, `*rest`, `{*rest}`, `{rest:path}`, `:rest*`
fn is_rest(segment: &str) -> bool {
    let inner = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let is_named_star = segment.strip_prefix('*').is_some_and(|name| name.bytes().all(|byte| byte != b'.'));
    is_named_star
        || inner.is_some_and(|name| name.starts_with('*') || name.ends_with(":path"))
        || segment.strip_suffix(['*', '+']).is_some_and(is_parameter)
}

fn braces(segment: &str) -> Wrong {
    match segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        Some(inner) if inner.contains(',') => {
            ("has alternatives in it", "several paths are a list: [/login, /register]")
        }
        Some(inner) if !inner.contains(['{', '}']) => (
            "has a parameter that is not just a name",
            "a name has letters, digits, `_` and `-`, as in /users/{id}; it stands for any one segment",
        ),
        _ => (
            "has a parameter within a segment",
            "a parameter stands for a whole segment, as in /users/{id}; braces themselves are `%7B` and `%7D`",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_good(check: fn(&mut Reporter<'_>, &str), text: &str) -> bool {
        crate::check::found_by(|top| check(top, text)).is_empty()
    }

    #[test]
    fn hosts_have_no_port_and_one_star() {
        for good in ["a", "api.example.com", "*.example.com", "[::1]", "10.0.0.1"] {
            assert!(is_good(|top, host| top.host(host), good), "{good}");
        }
        for bad in ["", "*", "*.", "a:80", "https://a", "a/b", "a.*", "*a.com", "a b"] {
            assert!(!is_good(|top, host| top.host(host), bad), "{bad:?}");
        }
    }

    #[test]
    fn tokens_are_those_of_http() {
        assert!(is_good(|top, name| top.header(name), "x-user-id"));
        for bad in ["", "x user", "x:y", "ü", "a\n", "(a)"] {
            assert!(!is_good(|top, name| top.header(name), bad), "{bad:?}");
        }
    }

    fn message(path: &str) -> Option<String> {
        crate::check::found_by(|top| check_path(path, top)).first().map(|problem| problem.message.clone())
    }

    #[test]
    fn a_path_has_names_stars_and_parameters_as_whole_segments() {
        for good in [
            "/",
            "/a",
            "/a/",
            "/*",
            "/a/*/b",
            "/a/*",
            "/%7Ea",
            "/a.b",
            "/users/{id}",
            "/users/:id/orders/{order_id}",
            "/users/{user-id}/*",
            "/v1/users:batch",
            "/Users(5)",
            "/$metadata",
            "/c++",
            "/a;b",
            "/a/%3Aid",
            "/a,b",
        ] {
            assert_eq!(message(good), None, "{good}");
        }
    }

    #[test]
    fn what_could_never_match_is_refused_with_its_reason() {
        for (bad, expected) in [
            ("", "does not begin"),
            ("a", "does not begin"),
            ("/a*", "a star within"),
            ("/a?b", "a query"),
            ("/a#b", "a query"),
            ("//a", "an empty segment"),
            ("/a//b", "an empty segment"),
            ("/a/../b", "`.` or `..`"),
            ("/./a", "`.` or `..`"),
            ("/a b", "spaces"),
            ("/a\n", "spaces"),
            ("^/users/\\d+$", "a regular expression"),
            ("/users/\\d+", "a regular expression"),
            ("/users/[0-9]+", "a regular expression"),
            ("/users/.*", "a regular expression"),
            ("/users/.+", "a regular expression"),
            ("/users$", "a regular expression"),
            ("/users/(?:x)", "a regular expression"),
            ("/(a|b)", "alternatives"),
            ("/a|/b", "alternatives"),
            ("/{a,b}", "alternatives"),
            ("/**", "several segments"),
            ("/a/**", "several segments"),
            ("/a/*rest", "several segments"),
            ("/a/{*rest}", "several segments"),
            ("/a/{rest:path}", "several segments"),
            ("/a/:rest*", "several segments"),
            ("/a/:rest+", "several segments"),
            ("/a/:id?", "may be missing"),
            ("/a/{id:int}", "not just a name"),
            ("/a/{}", "not just a name"),
            ("/a-{id}", "within a segment"),
            ("/{a}.{b}", "within a segment"),
            ("/a/{id", "within a segment"),
            ("/a/<int:id>", "angle brackets"),
            ("/a/:", "not a whole segment"),
            ("/a/:id.json", "not a whole segment"),
        ] {
            let found = message(bad);
            assert!(found.as_ref().is_some_and(|message| message.contains(expected)), "{bad:?}: {found:?}");
        }
    }
}
