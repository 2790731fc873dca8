//! Who is treated before any rule.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::compiled::address::carried;
use crate::compiled::address::networks::{NetworkMap, unmapped};
use crate::compiled::identity::{CLIENT_IP, Identities, IdentityId, RequestValues};
use crate::compiled::key::key_bytes::Keys;
use crate::compiled::matching::conditions::{Pattern, TextMap};
use crate::model::AccessList;

/// A compiled list.
#[derive(Debug)]
pub(super) struct CompiledAccess {
    /// Whether it grants something. Then an address is compared as it was sent; else also as what it carries.
    grants: bool,
    networks: NetworkMap<Option<IpNet>>,
    identities: Vec<(IdentityId, TextMap<Option<Pattern>>)>,
}

impl CompiledAccess {
    pub(super) fn compile(list: &AccessList, grants: bool, identities: &mut Identities) -> CompiledAccess {
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
        CompiledAccess { grants, networks, identities: list.identities.iter().map(by_identity).collect() }
    }

    /// Whether the client is meant. Networks are asked about the whole address, not about its group.
    #[inline]
    pub(super) fn means(&self, values: &RequestValues<'_>, route: Option<&[u8]>) -> bool {
        self.network(values).is_some() || self.entry(values, route).is_some()
    }

    /// The entry that means the client, in words.
    pub(super) fn entry_text(&self, values: &RequestValues<'_>, route: Option<&[u8]>) -> Option<String> {
        if let Some(network) = self.network(values) {
            return Some(format!("client_ip {network}"));
        }
        let (id, pattern) = self.entry(values, route)?;
        let only = pattern.only.map_or_else(String::new, |only| format!("{}=", values.identities.known(only).name));
        let text = &pattern.text;
        let of = pattern.only.unwrap_or(id);
        let shown = if text.is_wildcard() { text.0.clone() } else { values.identities.shown(of, text.0.as_bytes()) };
        Some(format!("{} {only}{shown}", values.identities.known(id).name))
    }

    /// The value for which the client is meant, as keys show it.
    pub(super) fn value_meant(&self, values: &RequestValues<'_>, route: Option<&[u8]>) -> Option<Keys> {
        let (id, _) = self.entry(values, route)?;
        let found = values.find(id, route)?;
        let mut value = Keys::new();
        values.identities.push_value(&mut value, found.id, found.text);
        Some(value)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.networks.is_empty() && self.identities.is_empty()
    }

    /// The identities that it asks for.
    pub(super) fn asked(&self) -> impl Iterator<Item = IdentityId> {
        let networks = (!self.networks.is_empty()).then_some(CLIENT_IP);
        self.identities.iter().map(|(id, _)| *id).chain(networks)
    }

    fn network(&self, values: &RequestValues<'_>) -> Option<IpNet> {
        if self.networks.is_empty() {
            return None;
        }
        let client = values.client()?;
        let carried = carried(client).filter(|_| !self.grants).map(IpAddr::V4);
        self.networks
            .find(client)
            .chain(carried.into_iter().flat_map(|address| self.networks.find(address)))
            .find_map(|network| *network)
    }

    /// The identity and the pattern by which the client is meant. A value that cannot be used is in no list.
    fn entry(&self, values: &RequestValues<'_>, route: Option<&[u8]>) -> Option<(IdentityId, &Pattern)> {
        self.identities.iter().find_map(|(id, map)| {
            let found = values.find_usable(*id, route)?;
            let in_list = |value: &[u8]| map.find(found.id, value).find_map(Option::as_ref);
            let pattern = match values.as_sent(found) {
                Some(sent) if self.grants => in_list(&sent),
                Some(sent) => in_list(&sent).or_else(|| in_list(found.text)),
                None => in_list(found.text),
            };
            Some((*id, pattern?))
        })
    }
}
