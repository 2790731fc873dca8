use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::Reader;
use super::members::Members;
use super::values::set;
use crate::check::codes;
use crate::check::words::quoted;
use crate::model::{ClientIp, ForwardedBy, Identity, IdentitySource, OnInvalid, Policy, Tier, TierSource};
use crate::yaml::findings::{Source, Span};
use crate::yaml::schema::{Field, Kind, Shape, defaulted, field, names, required, shape};
use crate::yaml::tree::Node;

const NAME: &str = "^[a-z][a-z0-9_]{0,63}$";
pub(super) const TOKEN: &str = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$";

/// Of `identity`.
pub(super) static IDENTITIES: Shape = Shape {
    others: Some(Kind::Object(&IDENTITY)),
    ..shape(
        "identities",
        "What clients are known by. Besides these, client_ip, method, host, path and route always exist.",
        &[
            field(
                "client_ip",
                Kind::Object(&CLIENT_IP),
                "How a client's address is found, and what part of it counts.",
            ),
            field("tier", Kind::Object(&TIER), "Which tier a client belongs to; it chooses among a rule's `tiers`."),
        ],
    )
};

pub(super) static CLIENT_IP: Shape = shape(
    "client_ip",
    "How a client's address is found, and what part of it counts.",
    &[
        defaulted(
            "trusted_proxies",
            Kind::AnyOf(&[Kind::Network, Kind::List(&Kind::Network, 0)]),
            "Who is believed when they say for whom they speak.",
            "[]",
        ),
        defaulted(
            "header",
            Kind::Words(&names(&FORWARDED_BY)),
            "The field in which trusted proxies say it.",
            r#""X-Forwarded-For""#,
        ),
        defaulted(
            "ipv6_prefix",
            Kind::Number { min: 1, max: 128 },
            "The bits of an IPv6 address that tell clients apart.",
            "64",
        ),
        defaulted(
            "ipv4_prefix",
            Kind::Number { min: 1, max: 32 },
            "The bits of an IPv4 address that tell clients apart.",
            "32",
        ),
    ],
);

const HEADER: Field = field("header", Kind::Pattern(TOKEN), "From this request header.");
const COOKIE: Field = field("cookie", Kind::Pattern(TOKEN), "From this cookie.");
const PATH_SEGMENT: Field =
    field("path_segment", Kind::Number { min: 1, max: 64 }, "From this segment of the path, counted from 1.");
const QUERY: Field = field("query", Kind::Text, "From this query parameter.");
const JWT_CLAIM: Field =
    field("jwt", Kind::Text, "From this claim of the token in `Authorization: Bearer`, verified as `jwt` says.");
const VALUE: Field = field("value", Kind::Text, "The same for everybody.");
const TRUSTED: Field =
    defaulted("trusted", Kind::Bool, "Somebody in front makes sure that clients cannot choose it freely.", "false");

/// An identity that the file declares.
pub(super) static IDENTITY: Shape = Shape {
    one_of: &["peer", "header", "cookie", "path_segment", "query", "bearer", "jwt", "value", "first", "given"],
    ..shape(
        "identity",
        "Where the value of an identity is found.",
        &[
            field("peer", Kind::True, "The address at the other end of the connection, whoever that speaks for."),
            HEADER,
            COOKIE,
            PATH_SEGMENT,
            QUERY,
            field("bearer", Kind::True, "The token of `Authorization: Bearer`."),
            JWT_CLAIM,
            VALUE,
            field("first", Kind::OneOrMore(&Kind::Pattern(NAME)), "The first of these identities that is present."),
            field("given", Kind::True, "What the caller of a limiter or of the service says it is."),
            TRUSTED,
            defaulted(
                "on_invalid",
                Kind::Words(&names(&ON_INVALID)),
                "A token that is present and cannot be used: counted under the client's address, refused, or as if it were absent.",
                r#""count""#,
            ),
            defaulted(
                "secret",
                Kind::Bool,
                "Its values are credentials and become keys only as hashes; those of `bearer` and `cookie` always do.",
                "false",
            ),
        ],
    )
};

pub(super) static TIER: Shape = Shape {
    one_of: &["header", "cookie", "path_segment", "query", "jwt", "value", "by"],
    ..shape(
        "tier",
        "Which tier a client belongs to.",
        &[
            HEADER,
            COOKIE,
            PATH_SEGMENT,
            QUERY,
            JWT_CLAIM,
            VALUE,
            field(
                "by",
                Kind::Pattern(NAME),
                "The tier is written down beside the value of this identity: in `map` or `file`.",
            ),
            field("map", Kind::Map(&Kind::Text), "Values of the identity, and their tiers."),
            field("file", Kind::Text, "A file with a value and its tier on each line."),
            required("default", Kind::Text, "The tier of everybody else."),
            TRUSTED,
        ],
    )
};

const FORWARDED_BY: [(&str, ForwardedBy); 2] =
    [("X-Forwarded-For", ForwardedBy::XForwardedFor), ("Forwarded", ForwardedBy::Forwarded)];
const ON_INVALID: [(&str, OnInvalid); 3] =
    [("count", OnInvalid::Count), ("refuse", OnInvalid::Refuse), ("absent", OnInvalid::Absent)];

/// A source that is a text: the member, what it is, and the source.
type TextSource = (&'static str, &'static str, fn(String) -> IdentitySource);

const TEXT_SOURCES: [TextSource; 5] = [
    ("header", "the name of a header", |name| IdentitySource::Header(name.to_ascii_lowercase())),
    ("cookie", "the name of a cookie", IdentitySource::Cookie),
    ("query", "the name of a query parameter", IdentitySource::Query),
    ("jwt", "the name of a claim", IdentitySource::Jwt),
    ("value", "a text", IdentitySource::Value),
];

impl Reader<'_> {
    pub(super) fn identities(&mut self, top: &Members<'_>, policy: &mut Policy) {
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

    fn client_ip(&mut self, node: &Node) -> ClientIp {
        let mut client_ip = ClientIp::default();
        let Some(members) = self.members(node, &CLIENT_IP) else { return client_ip };
        if let Some(node) = members.get("trusted_proxies") {
            // An empty list says what is so anyway, and says it aloud.
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

    /// An identity whose source cannot be read is still there for whoever refers to it.
    fn identity(&mut self, name: &str, node: &Node) -> Identity {
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

    fn secret(&mut self, members: &Members<'_>, source: &IdentitySource) -> bool {
        let secret = members.get("secret").and_then(|node| self.bool(node));
        if secret == Some(false) && source.is_always_secret() {
            let message = "values from here are credentials, and are always hashed before they become keys";
            self.misplaced(members.name_span("secret"), message, "leave the member out");
        }
        secret.unwrap_or(false)
    }

    /// The sources that a tier cannot have.
    fn own_source(&mut self, members: &Members<'_>) -> Option<IdentitySource> {
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

    /// The sources that identities and tiers share.
    fn source(&mut self, members: &Members<'_>) -> Option<IdentitySource> {
        for (name, expected, source) in TEXT_SOURCES {
            if let Some(text) = members.get(name).and_then(|node| self.text(node, expected)) {
                return Some(source(text));
            }
        }
        let segment = self.number(members.get("path_segment")?, 1..=64)?;
        usize::try_from(segment).ok().map(IdentitySource::PathSegment)
    }
}

impl Reader<'_> {
    fn tier(&mut self, node: &Node) -> Option<Tier> {
        let members = self.members(node, &TIER)?;
        let default = members.get("default").and_then(|node| self.text(node, "the name of a tier"));
        let trusted = members.get("trusted").and_then(|node| self.bool(node)).unwrap_or(false);
        let source = match members.get("by") {
            Some(by) => self.listed(by, &members),
            None => self.direct(&members),
        };
        Some(Tier { source: source?, default: default?, trusted })
    }

    fn direct(&mut self, members: &Members<'_>) -> Option<TierSource> {
        for name in ["map", "file"] {
            if members.get(name).is_some() {
                let hint = "say with `by` to which identity the values belong, as in `by: user`";
                self.misplaced(members.name_span(name), &format!("`{name}` goes with `by`"), hint);
            }
        }
        self.source(members).map(TierSource::Direct)
    }

    fn listed(&mut self, by: &Node, members: &Members<'_>) -> Option<TierSource> {
        let by = self.text(by, "the name of an identity");
        let tiers = match (members.get("map"), members.get("file")) {
            (Some(map), None) => self.tier_map(map),
            (None, Some(file)) => self.tier_file(file)?,
            (map, _) => {
                let what = if map.is_some() {
                    "`map` and `file` cannot stand beside each other"
                } else {
                    "`by` needs a list of tiers"
                };
                let hint = "add exactly one of `map` and `file`";
                self.error(codes::CHOOSE_ONE, members.name_span(if map.is_some() { "file" } else { "by" }), what, hint);
                return None;
            }
        };
        Some(TierSource::Listed { by: by?, tiers })
    }

    fn tier_map(&mut self, node: &Node) -> Vec<(String, String)> {
        if !node.is_map() {
            self.wrong_type(node, "a map of values and tiers, such as { alice: pro }");
        }
        let tiers = node.members().iter();
        tiers
            .filter_map(|member| Some((member.name.to_string(), self.text(&member.value, "the name of a tier")?)))
            .collect()
    }

    /// One value and its tier a line.
    fn tier_file(&mut self, node: &Node) -> Option<Vec<(String, String)>> {
        let name = self.text(node, "the name of a file")?;
        let (path, bytes) = self.file(&name, node.span)?;
        let file = path.display().to_string();
        let Ok(text) = String::from_utf8(bytes) else {
            let message = format!("the file {} is not text in UTF-8", quoted(&file));
            self.error(codes::UNREADABLE_FILE, node.span, message, "");
            return None;
        };
        let mut known = HashMap::new();
        let mut tiers = Vec::new();
        for (at, line) in Source::new(&file, &text).lines().enumerate() {
            match tier_line(line) {
                Ok(None) => {}
                Ok(Some((value, tier))) => match known.entry(value.to_owned()) {
                    Entry::Occupied(first) => {
                        let message = format!("the value of this line has a tier already, in line {}", first.get());
                        self.bad_line(&file, at, &message, "keep one of the two");
                    }
                    Entry::Vacant(free) => {
                        free.insert(at + 1);
                        tiers.push((value.to_owned(), tier.to_owned()));
                    }
                },
                Err(message) => self.bad_line(&file, at, message, "a line is a value and its tier: `alice pro`"),
            }
        }
        Some(tiers)
    }

    fn bad_line(&mut self, file: &str, at: usize, message: &str, hint: &str) {
        let span = Span { line: at + 1, column: 1, width: 1 };
        self.findings.error_in(file, codes::BAD_TIER_FILE, span, message, hint);
    }
}

/// The value and the tier of a line, or nothing of an empty one. The value may
/// have spaces in it: the last word is the tier.
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
        Err("expected a value and its tier, one of them is missing")
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
