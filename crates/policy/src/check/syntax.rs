//! The form of words: header names, methods, hosts.

use std::ops::RangeInclusive;

use super::{Reporter, codes, quoted};

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
}
