use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::PolicyReader;
use super::members::KnownMembers;
use super::values::set;
use crate::check::codes;
use crate::check::words::quoted;
use crate::model::{ClientIp, ForwardedBy, Identity, IdentitySource, OnInvalid, Policy, Tier, TierSource};
use crate::yaml::findings::{SourceText, TextSpan};
use crate::yaml::schema::{MapSchema, MemberSchema, ValueSchema, defaulted, field, names, required, shape};
use crate::yaml::tree::YamlNode;

const NAME: &str = "^[a-z][a-z0-9_]{0,63}$";
pub(super) const TOKEN: &str = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$";

/// The members of `identity`.
pub(super) static IDENTITIES: MapSchema = MapSchema {
    others: Some(ValueSchema::Object(&IDENTITY)),
    ..shape(
        "identities",
        "The identities of clients, by name. client_ip, method, host, path and route always exist.",
        &[
            field(
                "client_ip",
                ValueSchema::Object(&CLIENT_IP),
                "How the client's address is determined, and which part of it is the identity.",
            ),
            field(
                "tier",
                ValueSchema::Object(&TIER),
                "The source of a client's tier, which selects a limit from a rule's `tiers`.",
            ),
        ],
    )
};

pub(super) static CLIENT_IP: MapSchema = shape(
    "client_ip",
    "How the client's address is determined, and which part of it is the identity.",
    &[
        defaulted(
            "trusted_proxies",
            ValueSchema::AnyOf(&[ValueSchema::Network, ValueSchema::List(&ValueSchema::Network, 0)]),
            "The proxies that are trusted to forward the client's address: addresses and networks.",
            "[]",
        ),
        defaulted(
            "header",
            ValueSchema::Words(&names(&FORWARDED_BY)),
            "The header in which trusted proxies forward the client's address.",
            r#""X-Forwarded-For""#,
        ),
        defaulted(
            "ipv6_prefix",
            ValueSchema::Number { min: 1, max: 128 },
            "The prefix length of IPv6 addresses: addresses with the same prefix are one client.",
            "64",
        ),
        defaulted(
            "ipv4_prefix",
            ValueSchema::Number { min: 1, max: 32 },
            "The prefix length of IPv4 addresses: addresses with the same prefix are one client.",
            "32",
        ),
    ],
);

const HEADER: MemberSchema = field("header", ValueSchema::Pattern(TOKEN), "The request header with the value.");
const COOKIE: MemberSchema = field("cookie", ValueSchema::Pattern(TOKEN), "The cookie with the value.");
const PATH_SEGMENT: MemberSchema = field(
    "path_segment",
    ValueSchema::Number { min: 1, max: 64 },
    "The segment of the path with the value, counted from 1.",
);
const QUERY: MemberSchema = field("query", ValueSchema::Text, "The query parameter with the value.");
const JWT_CLAIM: MemberSchema = field(
    "jwt",
    ValueSchema::Text,
    "The claim with the value, in the token of `Authorization: Bearer`. The keys under `jwt` verify the token.",
);
const VALUE: MemberSchema = field("value", ValueSchema::Text, "A fixed value, the same for all requests.");
const TRUSTED: MemberSchema = defaulted(
    "trusted",
    ValueSchema::Bool,
    "A gateway or proxy in front ensures that clients cannot choose the value freely.",
    "false",
);

/// The members of one declared identity.
pub(super) static IDENTITY: MapSchema = MapSchema {
    one_of: &["peer", "header", "cookie", "path_segment", "query", "bearer", "jwt", "value", "first", "given"],
    ..shape(
        "identity",
        "The source of the values of an identity.",
        &[
            field(
                "peer",
                ValueSchema::True,
                "The address of the connection's peer, without regard to forwarding headers.",
            ),
            HEADER,
            COOKIE,
            PATH_SEGMENT,
            QUERY,
            field("bearer", ValueSchema::True, "The token of `Authorization: Bearer`."),
            JWT_CLAIM,
            VALUE,
            field(
                "first",
                ValueSchema::OneOrMore(&ValueSchema::Pattern(NAME)),
                "A list of identities: the value is that of the first one that is present.",
            ),
            field("given", ValueSchema::True, "The caller of the limiter or of the service sets the value."),
            TRUSTED,
            defaulted(
                "on_invalid",
                ValueSchema::Words(&names(&ON_INVALID)),
                "What happens to a request with an invalid token: it is counted under the client's address, refused, or treated as a request without the token.",
                r#""count""#,
            ),
            defaulted(
                "secret",
                ValueSchema::Bool,
                "Whether the values are credentials, which are stored only as hashes. Values of `bearer` and `cookie` always are.",
                "false",
            ),
        ],
    )
};

pub(super) static TIER: MapSchema = MapSchema {
    one_of: &["header", "cookie", "path_segment", "query", "jwt", "value", "by"],
    ..shape(
        "tier",
        "The source of a client's tier.",
        &[
            HEADER,
            COOKIE,
            PATH_SEGMENT,
            QUERY,
            JWT_CLAIM,
            VALUE,
            field("by", ValueSchema::Pattern(NAME), "The identity whose value is looked up in `map` or `file`."),
            field("map", ValueSchema::Map(&ValueSchema::Text), "The values of the identity `by`, with their tiers."),
            field("file", ValueSchema::Text, "A file with a value of the identity `by` and its tier on each line."),
            required("default", ValueSchema::Text, "The tier of clients whose tier is absent or unknown."),
            TRUSTED,
        ],
    )
};

const FORWARDED_BY: [(&str, ForwardedBy); 2] =
    [("X-Forwarded-For", ForwardedBy::XForwardedFor), ("Forwarded", ForwardedBy::Forwarded)];
const ON_INVALID: [(&str, OnInvalid); 3] =
    [("count", OnInvalid::Count), ("refuse", OnInvalid::Refuse), ("absent", OnInvalid::Absent)];

/// A source that is a text: the member, its description in messages, and the constructor.
type TextSource = (&'static str, &'static str, fn(String) -> IdentitySource);

const TEXT_SOURCES: [TextSource; 5] = [
    ("header", "the name of a header", |name| IdentitySource::Header(name.to_ascii_lowercase())),
    ("cookie", "the name of a cookie", IdentitySource::Cookie),
    ("query", "the name of a query parameter", IdentitySource::Query),
    ("jwt", "the name of a claim", IdentitySource::Jwt),
    ("value", "a text", IdentitySource::Value),
];

impl PolicyReader<'_> {
    pub(super) fn identities(&mut self, top: &KnownMembers<'_>, policy: &mut Policy) {
        let Some(node) = top.get("identity") else { return };
        self.broken.identities = !node.is_map() || node.lacks_members();
        self.broken.tier = self.broken.identities;
        let Some(members) = self.members(node, &IDENTITIES) else { return };
        set(&mut policy.client_ip, members.get("client_ip").map(|node| self.client_ip(node)));
        if let Some(node) = members.get("tier") {
            policy.tier = self.tier(node);
            self.broken.tier = policy.tier.is_none();
        }
        for member in members.others() {
            policy.identities.push(self.identity(&member.name, &member.value));
        }
    }

    fn client_ip(&mut self, node: &YamlNode) -> ClientIp {
        let mut client_ip = ClientIp::default();
        let Some(members) = self.members(node, &CLIENT_IP) else { return client_ip };
        if let Some(node) = members.get("trusted_proxies") {
            // An empty list is the default, and may be stated.
            client_ip.trusted_proxies = node.items().iter().flat_map(|item| self.networks(item)).collect();
        }
        set(&mut client_ip.forwarded_by, members.get("header").and_then(|node| self.word(node, &FORWARDED_BY)));
        let mut prefix = |name, most: u8| {
            let bits = members.get(name).and_then(|node| self.number(node, 1..=most.into()));
            bits.and_then(|bits| u8::try_from(bits).ok())
        };
        set(&mut client_ip.ipv6_prefix, prefix("ipv6_prefix", 128));
        set(&mut client_ip.ipv4_prefix, prefix("ipv4_prefix", 32));
        client_ip
    }

    /// Reads an identity. If its source cannot be read, it still exists, so that references to it cause no further errors.
    fn identity(&mut self, name: &str, node: &YamlNode) -> Identity {
        let unreadable = || IdentitySource::Value("unreadable".to_owned());
        let Some(members) = self.members(node, &IDENTITY) else {
            return Identity { trusted: true, ..Identity::new(name, unreadable()) };
        };
        let source = self.own_source(&members).unwrap_or_else(|| self.source(&members).unwrap_or_else(unreadable));
        let trusted = members.get("trusted").and_then(|node| self.bool(node)).unwrap_or(false);
        let on_invalid = members.get("on_invalid").and_then(|node| self.word(node, &ON_INVALID)).unwrap_or_default();
        let secret = self.secret(&members, &source);
        Identity { trusted, on_invalid, secret, ..Identity::new(name, source) }
    }

    fn secret(&mut self, members: &KnownMembers<'_>, source: &IdentitySource) -> bool {
        let secret = members.get("secret").and_then(|node| self.bool(node));
        if secret == Some(false) && source.is_always_secret() {
            let message =
                "`secret: false` is not possible here: values of this source are credentials and are always hashed";
            self.misplaced(members.name_span("secret"), message, "remove the member");
        }
        secret.unwrap_or(false)
    }

    /// Reads the sources that only identities have.
    fn own_source(&mut self, members: &KnownMembers<'_>) -> Option<IdentitySource> {
        let flags =
            [("peer", IdentitySource::Peer), ("bearer", IdentitySource::Bearer), ("given", IdentitySource::Given)];
        for (name, source) in flags {
            if let Some(node) = members.get(name) {
                self.only_true(node);
                return Some(source);
            }
        }
        let names = self.texts(members.get("first")?, "the name of an identity");
        Some(names).filter(|names| !names.is_empty()).map(IdentitySource::First)
    }

    /// Reads the sources that identities and the tier share.
    fn source(&mut self, members: &KnownMembers<'_>) -> Option<IdentitySource> {
        for (name, expected, source) in TEXT_SOURCES {
            if let Some(text) = members.get(name).and_then(|node| self.text(node, expected)) {
                return Some(source(text));
            }
        }
        let segment = self.number(members.get("path_segment")?, 1..=64)?;
        usize::try_from(segment).ok().map(IdentitySource::PathSegment)
    }
}

impl PolicyReader<'_> {
    fn tier(&mut self, node: &YamlNode) -> Option<Tier> {
        let members = self.members(node, &TIER)?;
        let default = members.get("default").and_then(|node| self.text(node, "the name of a tier"));
        let trusted = members.get("trusted").and_then(|node| self.bool(node)).unwrap_or(false);
        let source = match members.get("by") {
            Some(by) => self.listed(by, &members),
            None => self.direct(&members),
        };
        Some(Tier { source: source?, default: default?, trusted })
    }

    fn direct(&mut self, members: &KnownMembers<'_>) -> Option<TierSource> {
        for name in ["map", "file"] {
            if members.get(name).is_some() {
                let hint = "name the identity of the values with `by`, as in `by: user`";
                self.misplaced(members.name_span(name), &format!("`{name}` works only with `by`"), hint);
            }
        }
        self.source(members).map(TierSource::Direct)
    }

    fn listed(&mut self, by: &YamlNode, members: &KnownMembers<'_>) -> Option<TierSource> {
        let by = self.text(by, "the name of an identity");
        let tiers = match (members.get("map"), members.get("file")) {
            (Some(map), None) => self.tier_map(map),
            (None, Some(file)) => self.tier_file(file)?,
            (map, _) => {
                let what =
                    if map.is_some() { "`file` cannot be combined with `map`" } else { "`by` needs `map` or `file`" };
                let hint = "add exactly one of `map` and `file`";
                self.error(codes::CHOOSE_ONE, members.name_span(if map.is_some() { "file" } else { "by" }), what, hint);
                return None;
            }
        };
        Some(TierSource::Listed { by: by?, tiers })
    }

    fn tier_map(&mut self, node: &YamlNode) -> Vec<(String, String)> {
        if !node.is_map() {
            self.wrong_type(node, "a map of values and tiers, such as { alice: pro }");
        }
        let tiers = node.members().iter();
        tiers
            .filter_map(|member| Some((member.name.to_string(), self.text(&member.value, "the name of a tier")?)))
            .collect()
    }

    /// Reads a file with a value and its tier on each line.
    fn tier_file(&mut self, node: &YamlNode) -> Option<Vec<(String, String)>> {
        let name = self.text(node, "the name of a file")?;
        let (path, bytes) = self.file(&name, node.span)?;
        let file = path.display().to_string();
        let Ok(text) = String::from_utf8(bytes) else {
            let message = format!("the file {} is not UTF-8 text", quoted(&file));
            self.error(codes::UNREADABLE_FILE, node.span, message, "");
            return None;
        };
        let mut known = HashMap::new();
        let mut tiers = Vec::new();
        for (at, line) in SourceText::new(&file, &text).lines().enumerate() {
            match tier_line(line) {
                Ok(None) => {}
                Ok(Some((value, tier))) => match known.entry(value.to_owned()) {
                    Entry::Occupied(first) => {
                        let message = format!("the value of this line already has a tier in line {}", first.get());
                        self.bad_line(&file, at, &message, "keep one of the two");
                    }
                    Entry::Vacant(free) => {
                        free.insert(at + 1);
                        tiers.push((value.to_owned(), tier.to_owned()));
                    }
                },
                Err(message) => self.bad_line(&file, at, message, "write a value and its tier: `alice pro`"),
            }
        }
        Some(tiers)
    }

    fn bad_line(&mut self, file: &str, at: usize, message: &str, hint: &str) {
        let span = TextSpan { line: at + 1, column: 1, width: 1 };
        self.findings.error_in(file, codes::BAD_TIER_FILE, span, message, hint);
    }
}

/// Returns the value and the tier of a line, and `None` for an empty line or a comment. The last word is the tier, so the
/// value may contain spaces.
fn tier_line(line: &str) -> Result<Option<(&str, &str)>, &'static str> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let between = |c: char| c == ',' || c.is_whitespace();
    let Some((value, tier)) = line.rsplit_once(between) else {
        return Err("expected a value and its tier, found one word");
    };
    let value = value.trim_end_matches(between);
    if value.is_empty() || tier.is_empty() {
        Err("expected a value and its tier, and one of them is missing")
    } else {
        Ok(Some((value, tier)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_is_the_tier() {
        for (line, read) in [
            ("alice pro", Ok(Some(("alice", "pro")))),
            ("alice,pro", Ok(Some(("alice", "pro")))),
            ("  alice , pro \r", Ok(Some(("alice", "pro")))),
            ("Alice A. Smith\tpro", Ok(Some(("Alice A. Smith", "pro")))),
            ("", Ok(None)),
            ("# alice pro", Ok(None)),
        ] {
            assert_eq!(tier_line(line), read, "{line}");
        }
        assert!(tier_line("alice").is_err());
        assert!(tier_line(", pro").is_err());
        assert!(tier_line("alice,").is_err());
    }
}
