use ipnet::IpNet;

use super::Reader;
use super::identity::TOKEN;
use crate::model::{Condition, Networks, When};
use crate::yaml::schema::{Kind, Shape, field, required, shape};
use crate::yaml::tree::Node;

const ASKED: Kind = Kind::AnyOf(&[Kind::Bool, Kind::Text, Kind::List(&Kind::Text, 1), Kind::Object(&CONDITION)]);
const INTERNAL: Kind = Kind::Words(&["internal"]);

pub(super) static WHEN: Shape = shape(
    "when",
    "Which requests a rule is for. All that is there must hold.",
    &[
        field("method", Kind::OneOrMore(&Kind::Pattern(TOKEN)), "One of these methods; GET includes HEAD."),
        field("host", Kind::OneOrMore(&Kind::Text), "One of these hosts; `*.example.com` is every host below it."),
        field(
            "path",
            Kind::OneOrMore(&Kind::Pattern("^/")),
            "One of these paths; a segment `*`, `{name}` or `:name` stands for any one, `/*` at the end for everything below.",
        ),
        field(
            "headers",
            Kind::Map(&ASKED),
            "Request headers: true for present, false for absent, texts with `*`, or all but some.",
        ),
        field(
            "identity",
            Kind::Map(&ASKED),
            "Identities: true for present, false for absent, texts with `*`, or all but some.",
        ),
        field(
            "network",
            Kind::AnyOf(&[INTERNAL, Kind::OneOrMore(&Kind::Network), Kind::Object(&NETWORK)]),
            "From where the client comes: `internal` (private, loopback, link-local), networks, or all but these.",
        ),
        field("domain", Kind::OneOrMore(&Kind::Text), "A gateway's descriptor of one of these domains."),
        field(
            "entries",
            Kind::Words(&["exact"]),
            "`exact`: a gateway's descriptor with exactly the entries that the rule names, in `key` and in `when`.",
        ),
    ],
);

pub(super) static NETWORK: Shape = shape(
    "network",
    "A client from elsewhere, or whose address is not known.",
    &[required(
        "not",
        Kind::AnyOf(&[INTERNAL, Kind::OneOrMore(&Kind::Network)]),
        "From none of these: `internal`, or networks.",
    )],
);

pub(super) static CONDITION: Shape = shape(
    "condition",
    "A value that is there, and is not one of some.",
    &[
        field("is", Kind::OneOrMore(&Kind::Text), "One of these texts with `*`; any where it is absent."),
        required("not", Kind::OneOrMore(&Kind::Text), "None of these texts with `*`."),
    ],
);

impl Reader<'_> {
    pub(super) fn when(&mut self, node: Option<&Node>) -> When {
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

    fn conditions(&mut self, node: Option<&Node>) -> Vec<(String, Condition)> {
        let Some(node) = node else { return Vec::new() };
        let expected = "a map of names and what is asked of them: true, false or texts";
        self.each_member(node, expected, |reader, name, asked| Some((name.to_owned(), reader.condition(asked))))
    }

    fn condition(&mut self, node: &Node) -> Condition {
        if node.is_map() {
            return self.exception(node);
        }
        match node.scalar().and_then(|scalar| scalar.as_bool()) {
            Some(true) => Condition::Present,
            Some(false) => Condition::Absent,
            None => match self.patterns(node) {
                // It was told already; presence contradicts nothing.
                patterns if patterns.is_empty() => Condition::Present,
                patterns => Condition::OneOf(patterns),
            },
        }
    }

    fn exception(&mut self, node: &Node) -> Condition {
        // What is missing was told already; presence contradicts nothing.
        let Some(members) = self.members(node, &CONDITION) else { return Condition::Present };
        let mut patterns = |name: &str| members.get(name).map_or_else(Vec::new, |node| self.patterns(node));
        let (these, but_not) = (patterns("is"), patterns("not"));
        if but_not.is_empty() { Condition::Present } else { Condition::OneOfBut { these, but_not } }
    }

    fn network_condition(&mut self, node: &Node) -> Option<Networks> {
        if node.is_map() {
            let not = self.members(node, &NETWORK)?.get("not")?;
            return Some(match self.networks_named(not)? {
                None => Networks::NotInternal,
                Some(networks) => Networks::NotAmong(networks),
            });
        }
        Some(self.networks_named(node)?.map_or(Networks::Internal, Networks::Among))
    }

    /// The networks that are listed; `Some(None)` for the word `internal`, and `None` for what was told to be wrong.
    fn networks_named(&mut self, node: &Node) -> Option<Option<Vec<IpNet>>> {
        if node.scalar().is_some_and(|scalar| &*scalar.text == "internal") {
            return Some(None);
        }
        Some(self.networks(node)).filter(|networks| !networks.is_empty()).map(Some)
    }
}
