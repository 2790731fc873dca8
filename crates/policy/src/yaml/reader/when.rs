use ipnet::IpNet;

use super::PolicyReader;
use super::identity::TOKEN;
use crate::model::{Condition, Networks, When};
use crate::yaml::schema::{MapSchema, ValueSchema, field, required, shape};
use crate::yaml::tree::YamlNode;

const ANY_CONDITION: ValueSchema = ValueSchema::AnyOf(&[
    ValueSchema::Bool,
    ValueSchema::Text,
    ValueSchema::List(&ValueSchema::Text, 1),
    ValueSchema::Object(&CONDITION),
]);
const INTERNAL: ValueSchema = ValueSchema::Words(&["internal"]);

pub(super) static WHEN: MapSchema = MapSchema {
    mistaken: &[
        ("ip", "write `network`, as in `network: 10.0.0.0/8`"),
        ("client_ip", "write `network`, as in `network: 10.0.0.0/8`"),
        ("cidr", "write `network`, as in `network: 10.0.0.0/8`"),
        ("user", "write it under `identity`, as in `identity: { user: true }`"),
        ("tier", "write it under `identity`, as in `identity: { tier: free }`"),
        ("query", "declare an identity from the query parameter and write `identity: { NAME: true }`"),
        ("GET", "write several methods as a list: [GET, POST]"),
        ("POST", "write several methods as a list: [GET, POST]"),
    ],
    ..shape(
        "when",
        "The requests that a rule applies to. All conditions must hold.",
        &[
            field(
                "method",
                ValueSchema::OneOrMore(&ValueSchema::Pattern(TOKEN)),
                "One of these methods; GET includes HEAD.",
            ),
            field(
                "host",
                ValueSchema::OneOrMore(&ValueSchema::Text),
                "One of these hosts; `*.example.com` is every host below it.",
            ),
            field(
                "path",
                ValueSchema::OneOrMore(&ValueSchema::Pattern("^/")),
                "One of these paths; a segment `*`, `{name}` or `:name` matches any one segment, `/*` at the end everything below.",
            ),
            field(
                "headers",
                ValueSchema::Map(&ANY_CONDITION),
                "Request headers: true for present, false for absent, text patterns, or `not` for all other values.",
            ),
            field(
                "identity",
                ValueSchema::Map(&ANY_CONDITION),
                "Identities: true for present, false for absent, text patterns, or `not` for all other values.",
            ),
            field(
                "network",
                ValueSchema::AnyOf(&[
                    INTERNAL,
                    ValueSchema::OneOrMore(&ValueSchema::Network),
                    ValueSchema::Object(&NETWORK),
                ]),
                "The network of the client: `internal` (private, loopback, link-local), networks, or `not` for all others.",
            ),
            field(
                "domain",
                ValueSchema::OneOrMore(&ValueSchema::Text),
                "The domain of a gateway's descriptor is one of these.",
            ),
            field(
                "entries",
                ValueSchema::Words(&["exact"]),
                "`exact`: a gateway's descriptor with exactly the entries that the rule names, in `key` and in `when`.",
            ),
        ],
    )
};

pub(super) static NETWORK: MapSchema = shape(
    "network",
    "A client outside these networks, or with an unknown address.",
    &[required(
        "not",
        ValueSchema::AnyOf(&[INTERNAL, ValueSchema::OneOrMore(&ValueSchema::Network)]),
        "The client is in none of these: `internal`, or networks.",
    )],
);

pub(super) static CONDITION: MapSchema = shape(
    "condition",
    "A value that is present and not among some.",
    &[
        field("is", ValueSchema::OneOrMore(&ValueSchema::Text), "One of these text patterns; any value by default."),
        required("not", ValueSchema::OneOrMore(&ValueSchema::Text), "None of these text patterns."),
    ],
);

impl PolicyReader<'_> {
    pub(super) fn when(&mut self, node: Option<&YamlNode>) -> When {
        let mut when = When::default();
        let Some(members) = node.and_then(|node| self.members(node, &WHEN)) else { return when };
        let mut texts =
            |name: &str, expected| members.get(name).map_or_else(Vec::new, |node| self.texts(node, expected));
        when.methods = texts("method", "a method such as GET").iter().map(|word| word.to_ascii_uppercase()).collect();
        when.hosts =
            texts("host", "a host such as api.example.com").iter().map(|host| host.to_ascii_lowercase()).collect();
        when.paths = texts("path", "a path such as /login or /api/*");
        when.headers = self.conditions(members.get("headers"));
        for (name, _) in &mut when.headers {
            name.make_ascii_lowercase();
        }
        when.identities = self.conditions(members.get("identity"));
        when.network = members.get("network").and_then(|node| self.network_condition(node));
        let domains = members.get("domain");
        when.domains = domains.map_or_else(Vec::new, |node| self.texts(node, "a domain such as edge"));
        when.exact_entries = members.get("entries").and_then(|node| self.word(node, &[("exact", true)])).is_some();
        when
    }

    fn conditions(&mut self, node: Option<&YamlNode>) -> Vec<(String, Condition)> {
        let Some(node) = node else { return Vec::new() };
        let expected = "a map of names and conditions: true, false or text patterns";
        self.each_member(node, expected, |reader, name, node| Some((name.to_owned(), reader.condition(node))))
    }

    fn condition(&mut self, node: &YamlNode) -> Condition {
        if node.is_map() {
            return self.exception(node);
        }
        match node.scalar().and_then(|scalar| scalar.as_bool()) {
            Some(true) => Condition::Present,
            Some(false) => Condition::Absent,
            None => match self.patterns(node) {
                // The error was reported; presence contradicts no other condition.
                patterns if patterns.is_empty() => Condition::Present,
                patterns => Condition::OneOf(patterns),
            },
        }
    }

    fn exception(&mut self, node: &YamlNode) -> Condition {
        // The error was reported; presence contradicts no other condition.
        let Some(members) = self.members(node, &CONDITION) else { return Condition::Present };
        let mut patterns = |name: &str| members.get(name).map_or_else(Vec::new, |node| self.patterns(node));
        let (these, but_not) = (patterns("is"), patterns("not"));
        if but_not.is_empty() { Condition::Present } else { Condition::OneOfBut { these, but_not } }
    }

    fn network_condition(&mut self, node: &YamlNode) -> Option<Networks> {
        if node.is_map() {
            let not = self.members(node, &NETWORK)?.get("not")?;
            return Some(match self.networks_named(not)? {
                None => Networks::NotInternal,
                Some(networks) => Networks::NotAmong(networks),
            });
        }
        Some(self.networks_named(node)?.map_or(Networks::Internal, Networks::Among))
    }

    /// Reads a list of networks. Returns `Some(None)` for the word `internal`, and `None` after an error.
    fn networks_named(&mut self, node: &YamlNode) -> Option<Option<Vec<IpNet>>> {
        if node.scalar().is_some_and(|scalar| &*scalar.text == "internal") {
            return Some(None);
        }
        Some(self.networks(node)).filter(|networks| !networks.is_empty()).map(Some)
    }
}
