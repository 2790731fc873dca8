//! Checks the syntax of header names, methods, hosts and path patterns.
//!
//! A path pattern is refused if it could never match. Such patterns come from routers with another syntax; without an
//! error, the rule would silently apply to nothing.

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

/// Whether a text is a token of HTTP, the form of methods and of names of headers and cookies.
fn is_token(text: &str) -> bool {
    let is_tchar = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_tchar)
}

impl Reporter<'_> {
    /// Checks the name of a header or a cookie.
    pub(super) fn header(&mut self, name: &str) {
        if !is_token(name) {
            let message = format!("{} is not a valid name of a header or a cookie", quoted(name));
            let hint = "use letters, digits and `-`, without spaces and colon, such as X-User-ID";
            self.add(codes::BAD_HEADER_NAME, message, hint);
        }
    }

    pub(super) fn method(&mut self, name: &str) {
        if !is_token(name) {
            let hint = "write one word such as GET; write several methods as a list: [GET, POST]";
            self.add(codes::BAD_METHOD, format!("{} is not a valid method", quoted(name)), hint);
        }
    }

    /// Checks that a text is not empty and has no control characters.
    pub(super) fn text(&mut self, text: &str, what: &str) {
        if text.is_empty() || text.chars().any(char::is_control) {
            let message = format!("{what} must be a text that is not empty and has no control characters");
            self.add(codes::BAD_TEXT, message, "remove tabs and line ends");
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
            "write only the host, without scheme and path"
        } else if host.contains(':') {
            "remove the port: hosts are compared without it"
        } else if host.contains('*') {
            "write `*.` and a domain, as in *.example.com; remove `host` to match all hosts"
        } else {
            "write a host name such as api.example.com"
        };
        self.add(codes::BAD_HOST, format!("{} is not a valid host", quoted(host)), hint);
    }

    /// Checks that a number is within a range.
    pub(super) fn range(&mut self, value: u64, range: RangeInclusive<u64>, what: &str) {
        if !range.contains(&value) {
            let message = format!("{what} must be from {} to {}, found {value}", range.start(), range.end());
            self.add(codes::OUT_OF_RANGE, message, "");
        }
    }

    /// Checks that a list is not empty.
    pub(super) fn not_empty<T>(&mut self, list: &[T], what: &str) {
        if list.is_empty() {
            self.add(codes::EMPTY_LIST, format!("expected at least one {what}"), "");
        }
    }
}

/// What is wrong with a path, and the hint.
type PathProblem = (&'static str, &'static str);

/// Checks a path pattern.
pub(super) fn check_path(path: &str, here: &mut Reporter<'_>) {
    let wrong = regular_expression(path).or_else(|| no_slash(path)).or_else(|| outside_the_path(path)).or_else(|| {
        let last = path.split('/').count() - 1;
        path.split('/').enumerate().skip(1).find_map(|(at, segment)| in_segment(segment, at == last))
    });
    if let Some((what, hint)) = wrong {
        here.add(codes::BAD_PATH, format!("the path {} {what}", quoted(path)), hint);
    }
}

/// Detects regular expressions. The single characters never occur unescaped in a path; the pairs mean a repetition.
fn regular_expression(path: &str) -> Option<PathProblem> {
    const REPETITIONS: [&str; 7] = [".*", ".+", ".?", ")*", ")+", ")?", "(?"];
    if path.contains('|') {
        return Some(("contains alternatives", "write several paths as a list: [/login, /register]"));
    }
    let is_one = path.contains(['^', '[', ']', '\\'])
        || path.ends_with('$')
        || REPETITIONS.iter().any(|repetition| path.contains(repetition));
    is_one.then_some((
        "looks like a regular expression, and paths are compared segment by segment",
        "write `{name}` for any one segment, as in /users/{id}, and `/*` at the end for everything below, as in /api/*",
    ))
}

fn no_slash(path: &str) -> Option<PathProblem> {
    (!path.starts_with('/')).then_some((
        "does not begin with `/`",
        if path == "*" {
            "write /* for all paths, or remove `path`"
        } else {
            "write the path without scheme and host, such as /login or /api/*"
        },
    ))
}

fn outside_the_path(path: &str) -> Option<PathProblem> {
    if path.split('/').any(|segment| segment.strip_suffix('?').is_some_and(is_parameter)) {
        return Some(("has an optional segment", "write both paths: [/users, /users/{id}]"));
    }
    if path.contains(['?', '#']) {
        return Some(("contains a query or a fragment", "remove everything from `?` or `#` on"));
    }
    path.chars()
        .any(|c| c.is_control() || c.is_whitespace())
        .then_some(("contains spaces or control characters", "write several paths as a list: [/login, /register]"))
}

fn in_segment(segment: &str, is_last: bool) -> Option<PathProblem> {
    Some(match segment {
        "" if !is_last => ("has an empty segment", "write a single `/`: paths are normalised before they are compared"),
        "." | ".." => {
            ("contains a segment `.` or `..`", "write the resolved path: paths are normalised before they are compared")
        }
        "" | "*" => return None,
        _ if is_parameter(segment) => return None,
        _ if is_rest(segment) => {
            ("has a parameter for several segments", "write `/*` at the end to match everything below")
        }
        _ if segment.contains('*') => (
            "has a star within a segment",
            "write a star as a whole segment, as in /users/*/orders, or `/*` at the end for everything below, as in /api/*",
        ),
        _ if segment.contains(['{', '}']) => braces(segment),
        _ if segment.contains(['<', '>']) => ("has a parameter in angle brackets", "write it in braces: /users/{id}"),
        _ if segment.starts_with(':') => (
            "has a parameter that is not a whole segment",
            "write `:id` as a whole segment, with letters, digits, `_` and `-`; write a colon itself as `%3A`",
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

fn braces(segment: &str) -> PathProblem {
    match segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        Some(inner) if inner.contains(',') => {
            ("contains alternatives", "write several paths as a list: [/login, /register]")
        }
        Some(inner) if !inner.contains(['{', '}']) => (
            "has a parameter that is not just a name",
            "write a name of letters, digits, `_` and `-`, as in /users/{id}; it matches any one segment",
        ),
        _ => (
            "has a parameter within a segment",
            "write a parameter as a whole segment, as in /users/{id}; write braces themselves as `%7B` and `%7D`",
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
    fn hosts_with_ports_or_several_stars_are_refused() {
        for good in ["a", "api.example.com", "*.example.com", "[::1]", "10.0.0.1"] {
            assert!(is_good(|top, host| top.host(host), good), "{good}");
        }
        for bad in ["", "*", "*.", "a:80", "https://a", "a/b", "a.*", "*a.com", "a b"] {
            assert!(!is_good(|top, host| top.host(host), bad), "{bad:?}");
        }
    }

    #[test]
    fn header_names_must_be_tokens() {
        assert!(is_good(|top, name| top.header(name), "x-user-id"));
        for bad in ["", "x user", "x:y", "ü", "a\n", "(a)"] {
            assert!(!is_good(|top, name| top.header(name), bad), "{bad:?}");
        }
    }

    fn message(path: &str) -> Option<String> {
        crate::check::found_by(|top| check_path(path, top)).first().map(|problem| problem.message.clone())
    }

    #[test]
    fn names_stars_and_parameters_are_accepted_as_whole_segments() {
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
    fn patterns_that_never_match_are_refused_with_a_reason() {
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
            ("/a/:id?", "an optional segment"),
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
