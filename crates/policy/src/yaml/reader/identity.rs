use super::Reader;
use super::members::Members;
use crate::model::{ClientIp, ForwardedBy, Identity, IdentitySource, OnInvalid, Policy};
use crate::yaml::shape;
use crate::yaml::tree::Node;

const ON_INVALID: [(&str, OnInvalid); 3] =
    [("count", OnInvalid::Count), ("refuse", OnInvalid::Refuse), ("absent", OnInvalid::Absent)];

impl Reader<'_> {
    pub(super) fn identities(&mut self, top: &Members<'_>, policy: &mut Policy) {
        let Some(node) = top.get("identity") else { return };
        self.broken.identities = !node.is_map() || node.lacks_members();
        self.broken.tier = self.broken.identities;
        let Some(members) = self.members(node, &shape::IDENTITIES) else { return };
        if let Some(node) = members.get("client_ip") {
            policy.client_ip = self.client_ip(node);
        }
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
        if let Some(by) = members.get("header").and_then(|node| self.word(node, &words)) {
            client_ip.forwarded_by = by;
        }
        let mut prefix = |name, most: u8| {
            let bits = members.get(name).and_then(|node| self.number(node, 1..=most.into()));
            bits.and_then(|bits| u8::try_from(bits).ok())
        };
        client_ip.ipv6_prefix = prefix("ipv6_prefix", 128).unwrap_or(client_ip.ipv6_prefix);
        client_ip.ipv4_prefix = prefix("ipv4_prefix", 32).unwrap_or(client_ip.ipv4_prefix);
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
        Identity { trusted, on_invalid, ..Identity::new(name, source) }
    }

    /// The sources that a tier cannot have.
    fn own_source(&mut self, members: &Members<'_>) -> Option<IdentitySource> {
        if let Some(node) = members.get("peer") {
            self.only_true(node);
            return Some(IdentitySource::Peer);
        }
        if let Some(node) = members.get("bearer") {
            self.only_true(node);
            return Some(IdentitySource::Bearer);
        }
        if let Some(node) = members.get("given") {
            self.only_true(node);
            return Some(IdentitySource::Given);
        }
        let node = members.get("first")?;
        let names = self.texts(node, "the name of an identity");
        Some(names).filter(|names| !names.is_empty()).map(IdentitySource::First)
    }

    /// The sources that identities and tiers share.
    pub(super) fn source(&mut self, members: &Members<'_>) -> Option<IdentitySource> {
        let mut text = |name: &str, expected| members.get(name).and_then(|node| self.text(node, expected));
        if let Some(name) = text("header", "the name of a header") {
            return Some(IdentitySource::Header(name.to_ascii_lowercase()));
        }
        if let Some(name) = text("cookie", "the name of a cookie") {
            return Some(IdentitySource::Cookie(name));
        }
        if let Some(name) = text("query", "the name of a query parameter") {
            return Some(IdentitySource::Query(name));
        }
        if let Some(claim) = text("jwt", "the name of a claim") {
            return Some(IdentitySource::Jwt(claim));
        }
        if let Some(value) = text("value", "a text") {
            return Some(IdentitySource::Value(value));
        }
        let segment = self.number(members.get("path_segment")?, 1..=64)?;
        usize::try_from(segment).ok().map(IdentitySource::PathSegment)
    }
}
