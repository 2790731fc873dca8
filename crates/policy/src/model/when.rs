use ipnet::IpNet;

/// Which requests a rule is for. What is empty asks for nothing; all that is
/// there must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct When {
    /// One of these methods. GET includes HEAD.
    pub methods: Vec<String>,
    /// One of these hosts: a name, or `*.example.com` for all below it. Ports do not count.
    pub hosts: Vec<String>,
    /// One of these paths: exact, with `*`, `{name}` or `:name` for one segment, or with `/*` at the end for everything
    /// below.
    pub paths: Vec<String>,
    /// Request headers.
    pub headers: Vec<(String, Condition)>,
    /// Identities.
    pub identities: Vec<(String, Condition)>,
    /// From where the client comes. A client whose address is not known comes from none of the networks that are
    /// listed, so a condition on being elsewhere holds for it.
    pub network: Option<Networks>,
    /// A descriptor of one of these domains.
    pub domains: Vec<String>,
    /// A descriptor whose entries are exactly those that the rule names, in its key and here.
    pub exact_entries: bool,
}

/// What is asked of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// That there is one.
    Present,
    /// That there is none.
    Absent,
    /// That it is one of these.
    OneOf(Vec<TextPattern>),
    /// That it is one of `these`, or any where there are none, and none of the others.
    OneOfBut {
        /// One of these.
        these: Vec<TextPattern>,
        /// None of these.
        but_not: Vec<TextPattern>,
    },
}

/// From where a client comes.
#[derive(Clone, Debug, PartialEq)]
pub enum Networks {
    /// Private, loopback and link-local addresses.
    Internal,
    /// One of these.
    Among(Vec<IpNet>),
    /// Any other address than private, loopback and link-local ones, or an unknown one.
    NotInternal,
    /// Any other address than these, or an unknown one.
    NotAmong(Vec<IpNet>),
}

impl Networks {
    /// Whether it asks for an address outside the networks, which an unknown address is.
    #[must_use]
    pub fn is_outside(&self) -> bool {
        matches!(self, Networks::NotInternal | Networks::NotAmong(_))
    }
}

/// A text, in which `*` stands for anything (also nothing, also several characters).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TextPattern(pub String);

impl TextPattern {
    /// Whether it stands for more than one text.
    #[must_use]
    pub fn is_wildcard(&self) -> bool {
        self.0.contains('*')
    }

    /// Whether `text` is meant.
    #[must_use]
    pub fn matches(&self, text: &[u8]) -> bool {
        let mut parts = self.0.as_bytes().split(|byte| *byte == b'*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = text.strip_prefix(first) else { return false };
        let Some(last) = parts.next_back() else { return rest.is_empty() };
        // The leftmost place of each part leaves the most room for those after it.
        for part in parts.filter(|part| !part.is_empty()) {
            let Some(at) = rest.windows(part.len()).position(|window| window == part) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last)
    }
}

/// Whether a segment of a pattern stands for any one segment by a name: `{id}` as in axum and FastAPI, or `:id` as in
/// Express.
pub(crate) fn is_parameter(segment: &str) -> bool {
    let name = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).or_else(|| segment.strip_prefix(':'));
    name.is_some_and(is_parameter_name)
}

fn is_parameter_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Clients that are treated before any rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccessList {
    /// By address.
    pub client_ip: Vec<IpNet>,
    /// By other identities: a name, and the values that are meant.
    pub identities: Vec<(String, Vec<TextPattern>)>,
}

impl AccessList {
    /// Whether it matches no client.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.client_ip.is_empty() && self.identities.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
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
        for (pattern, text, meant) in cases {
            assert_eq!(TextPattern(pattern.to_owned()).matches(text.as_bytes()), meant, "{pattern} {text}");
        }
    }
}
