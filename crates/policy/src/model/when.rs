use ipnet::IpNet;

/// The requests that a rule applies to. All conditions must hold; an empty list is no condition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct When {
    /// One of these methods. GET includes HEAD.
    pub methods: Vec<String>,
    /// One of these hosts: a name, or `*.example.com` for all hosts below it. Ports are ignored.
    pub hosts: Vec<String>,
    /// One of these paths. `*`, `{name}` and `:name` match one segment, `/*` at the end matches everything below.
    pub paths: Vec<String>,
    /// Conditions on request headers, by name.
    pub headers: Vec<(String, Condition)>,
    /// Conditions on identities, by name.
    pub identities: Vec<(String, Condition)>,
    /// The network of the client. An unknown address is in no network, so it matches [`Networks::NotInternal`] and
    /// [`Networks::NotAmong`].
    pub network: Option<Networks>,
    /// One of these domains of a gateway's descriptor.
    pub domains: Vec<String>,
    /// Whether a gateway's descriptor must have exactly the entries that the rule names, in its key and here.
    pub exact_entries: bool,
}

/// A condition on a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// The value is present.
    Present,
    /// The value is absent.
    Absent,
    /// The value matches one of these patterns.
    OneOf(Vec<TextPattern>),
    /// The value matches one of `these`, or is any value if there are none, and matches none of `but_not`.
    OneOfBut {
        /// The patterns of which one must match.
        these: Vec<TextPattern>,
        /// The patterns of which none may match.
        but_not: Vec<TextPattern>,
    },
}

/// A condition on the network of the client.
#[derive(Clone, Debug, PartialEq)]
pub enum Networks {
    /// Private, loopback and link-local addresses.
    Internal,
    /// An address in one of these networks.
    Among(Vec<IpNet>),
    /// An address that is not private, loopback or link-local, or an unknown one.
    NotInternal,
    /// An address in none of these networks, or an unknown one.
    NotAmong(Vec<IpNet>),
}

impl Networks {
    /// Whether the condition is for addresses outside the networks. It then matches an unknown address.
    #[must_use]
    pub fn is_outside(&self) -> bool {
        matches!(self, Networks::NotInternal | Networks::NotAmong(_))
    }
}

/// A text pattern, in which `*` matches any number of any characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TextPattern(pub String);

impl TextPattern {
    /// Whether the pattern contains `*`.
    #[must_use]
    pub fn is_wildcard(&self) -> bool {
        self.0.contains('*')
    }

    /// Whether the pattern matches `text`.
    ///
    /// ```
    /// # use tollgate_policy::model::TextPattern;
    /// let pattern = TextPattern("svc-*".to_owned());
    /// assert!(pattern.matches(b"svc-billing"));
    /// assert!(!pattern.matches(b"alice"));
    /// ```
    #[must_use]
    pub fn matches(&self, text: &[u8]) -> bool {
        let mut parts = self.0.as_bytes().split(|byte| *byte == b'*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = text.strip_prefix(first) else { return false };
        let Some(last) = parts.next_back() else { return rest.is_empty() };
        // The leftmost match of each part leaves the most text for the parts after it.
        for part in parts.filter(|part| !part.is_empty()) {
            let Some(at) = rest.windows(part.len()).position(|window| window == part) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last)
    }
}

/// Whether a segment of a path pattern is a parameter, which matches any one segment: `{id}` as in axum and FastAPI, or
/// `:id` as in Express.
pub(crate) fn is_parameter(segment: &str) -> bool {
    let name = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).or_else(|| segment.strip_prefix(':'));
    name.is_some_and(is_parameter_name)
}

fn is_parameter_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Clients that are denied or allowed before any rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccessList {
    /// The clients with an address in these networks.
    pub client_ip: Vec<IpNet>,
    /// The clients by other identities: a name, and patterns of its values.
    pub identities: Vec<(String, Vec<TextPattern>)>,
}

impl AccessList {
    /// Whether the list matches no client.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.client_ip.is_empty() && self.identities.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_matches_any_characters() {
        let cases = [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "a", true),
            ("a*", "abc", true),
            ("a*", "ba", false),
            ("*", "", true),
            ("*c", "abc", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c", false),
            ("ab*ba", "aba", false),
            ("", "", true),
            ("", "a", false),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(TextPattern(pattern.to_owned()).matches(text.as_bytes()), expected, "{pattern} {text}");
        }
    }
}
