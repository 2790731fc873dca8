use axum::http::Uri;

use crate::http::problem::ProblemDetails;

/// The rule and key in the path of a call: the key is everything after the rule, and is empty for a rule with one
/// global counter.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::http::admin) struct KeyPath {
    pub(in crate::http::admin) rule: String,
    pub(in crate::http::admin) key: String,
}

impl KeyPath {
    /// Parses the path after `prefix`.
    pub(in crate::http::admin) fn after(prefix: &str, uri: &Uri) -> Result<KeyPath, ProblemDetails> {
        let rest = uri.path().strip_prefix(prefix).unwrap_or_default();
        let (rule, key) = rest.split_once('/').unwrap_or((rest, ""));
        match (decoded(rule), decoded(key)) {
            (Some(rule), Some(key)) => Ok(KeyPath { rule, key }),
            _ => Err(ProblemDetails::bad_path("the rule and the key must be percent-encoded UTF-8")),
        }
    }
}

/// Decodes percent-encoding; `None` for a malformed escape or invalid UTF-8.
pub(in crate::http::admin) fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first == b'%' {
            let (digits, remaining) = after.split_first_chunk::<2>()?;
            let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            bytes.push(digit(digits[0])? << 4 | digit(digits[1])?);
            rest = remaining;
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str) -> Option<(String, String)> {
        let name = KeyPath::after("/api/keys/", &path.parse().unwrap()).ok()?;
        Some((name.rule, name.key))
    }

    #[test]
    fn path_after_the_rule_is_the_key() {
        for (path, rule, key) in [
            ("/api/keys/per-ip/203.0.113.9", "per-ip", "203.0.113.9"),
            ("/api/keys/items/alice%7C/api/items", "items", "alice|/api/items"),
            ("/api/keys/items/alice%7c%2Fapi%2Fitems", "items", "alice|/api/items"),
            ("/api/keys/all", "all", ""),
            ("/api/keys/all/", "all", ""),
            ("/api/keys/a%20b/%e4%b8%ad+", "a b", "中+"),
            ("/api/keys/", "", ""),
        ] {
            assert_eq!(read(path), Some((rule.to_owned(), key.to_owned())), "{path}");
        }
    }

    #[test]
    fn invalid_percent_encoding_is_refused() {
        for path in ["/api/keys/a/%", "/api/keys/a/%4", "/api/keys/a/%zz", "/api/keys/%ff/a", "/api/keys/a/%+1"] {
            assert_eq!(read(path), None, "{path}");
        }
    }
}
