//! The access lists `deny` and `allow`, which are checked before any rule.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::compiled::address::embedded_v4;
use crate::compiled::address::networks::{NetworkMap, unmapped};
use crate::compiled::identity::{CLIENT_IP, IdentityId, IdentityTable, RequestValues};
use crate::compiled::key::key_bytes::KeyBuffer;
use crate::compiled::matching::conditions::{Pattern, TextMap};
use crate::model::AccessList;

/// A compiled access list.
#[derive(Debug)]
pub(super) struct CompiledAccess {
    /// Whether the list exempts clients. An address is then compared as it was sent only; otherwise, its embedded IPv4
    /// address is compared, too.
    exempts: bool,
    networks: NetworkMap<Option<IpNet>>,
    identities: Vec<(IdentityId, TextMap<Option<Pattern>>)>,
}

impl CompiledAccess {
    pub(super) fn compile(list: &AccessList, exempts: bool, identities: &mut IdentityTable) -> CompiledAccess {
        let mut networks = NetworkMap::new();
        for network in &list.client_ip {
            *networks.entry(*network) = Some(unmapped(*network));
        }
        let by_identity = |(name, patterns): &(String, Vec<_>)| {
            let id = identities.id(name);
            let mut map: TextMap<Option<Pattern>> = TextMap::new();
            for pattern in patterns.iter().map(|pattern| identities.pattern(id, pattern)) {
                map.entry(pattern.clone()).replace(pattern);
            }
            (id, map)
        };
        CompiledAccess { exempts, networks, identities: list.identities.iter().map(by_identity).collect() }
    }

    /// Whether the list contains the client. Networks are compared with the whole address, not with its prefix.
    #[inline]
    pub(super) fn contains(&self, values: &RequestValues<'_>, route: Option<&[u8]>) -> bool {
        self.network(values).is_some() || self.entry(values, route).is_some()
    }

    /// Returns the entry that matches the client, as text.
    pub(super) fn entry_text(&self, values: &RequestValues<'_>, route: Option<&[u8]>) -> Option<String> {
        if let Some(network) = self.network(values) {
            return Some(format!("client_ip {network}"));
        }
        let (id, pattern) = self.entry(values, route)?;
        let only = pattern.only.map_or_else(String::new, |only| format!("{}=", values.identities.get(only).name));
        let text = &pattern.text;
        let of = pattern.only.unwrap_or(id);
        let shown =
            if text.is_wildcard() { text.0.clone() } else { values.identities.display_value(of, text.0.as_bytes()) };
        Some(format!("{} {only}{shown}", values.identities.get(id).name))
    }

    /// Returns the value by which the list contains the client, as it is written in keys.
    pub(super) fn matched_value(&self, values: &RequestValues<'_>, route: Option<&[u8]>) -> Option<KeyBuffer> {
        let (id, _) = self.entry(values, route)?;
        let found = values.find(id, route)?;
        let mut value = KeyBuffer::new();
        values.identities.push_value(&mut value, found.id, found.text);
        Some(value)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.networks.is_empty() && self.identities.is_empty()
    }

    /// Returns the identities that the list uses.
    pub(super) fn identities_in_use(&self) -> impl Iterator<Item = IdentityId> {
        let networks = (!self.networks.is_empty()).then_some(CLIENT_IP);
        self.identities.iter().map(|(id, _)| *id).chain(networks)
    }

    fn network(&self, values: &RequestValues<'_>) -> Option<IpNet> {
        if self.networks.is_empty() {
            return None;
        }
        let client = values.client()?;
        let embedded = embedded_v4(client).filter(|_| !self.exempts).map(IpAddr::V4);
        self.networks
            .find(client)
            .chain(embedded.into_iter().flat_map(|address| self.networks.find(address)))
            .find_map(|network| *network)
    }

    /// Returns the identity and the pattern that match the client. An unusable value is in no list.
    fn entry(&self, values: &RequestValues<'_>, route: Option<&[u8]>) -> Option<(IdentityId, &Pattern)> {
        self.identities.iter().find_map(|(id, map)| {
            let found = values.find_usable(*id, route)?;
            let in_list = |value: &[u8]| map.find(found.id, value).find_map(Option::as_ref);
            let pattern = match values.as_sent(found) {
                Some(sent) if self.exempts => in_list(&sent),
                Some(sent) => in_list(&sent).or_else(|| in_list(found.text)),
                None => in_list(found.text),
            };
            Some((*id, pattern?))
        })
    }
}
