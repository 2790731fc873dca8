use super::Reader;
use super::members::Members;
use super::values::set;
use crate::model::{ClientIp, ForwardedBy, Identity, IdentitySource, OnInvalid, Policy};
use crate::yaml::shape;
use crate::yaml::tree::Node;

const ON_INVALID: [(&str, OnInvalid); 3] =
    [("count", OnInvalid::Count), ("refuse", OnInvalid::Refuse), ("absent", OnInvalid::Absent)];

/// Sources that are a text: the member, what it is, and the source.
const TEXT_SOURCES: [(&str, &str, fn(String) -> IdentitySource); 5] = [
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
        let Some(members) = self.members(node, &shape::IDENTITIES) else { return };
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
        let Some(members) = self.members(node, &shape::CLIENT_IP) else { return client_ip };
        if let Some(node) = members.get("trusted_proxies") {
            // An empty list says what is so anyway, and says it aloud.
            client_ip.trusted_proxies = node.items().iter().flat_map(|item| self.networks(item)).collect();
        }
        let words = [("X-Forwarded-For", ForwardedBy::XForwardedFor), ("Forwarded", ForwardedBy::Forwarded)];
        set(&mut client_ip.forwarded_by, members.get("header").and_then(|node| self.word(node, &words)));
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
        let Some(members) = self.members(node, &shape::IDENTITY) else {
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
    pub(super) fn source(&mut self, members: &Members<'_>) -> Option<IdentitySource> {
        for (name, expected, source) in TEXT_SOURCES {
            if let Some(text) = members.get(name).and_then(|node| self.text(node, expected)) {
                return Some(source(text));
            }
        }
        let segment = self.number(members.get("path_segment")?, 1..=64)?;
        usize::try_from(segment).ok().map(IdentitySource::PathSegment)
    }
}
