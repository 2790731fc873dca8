//! Who is treated before any rule.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::compiled::address::carried;
use crate::compiled::address::networks::{NetworkMap, unmapped};
use crate::compiled::identity::{Identities, IdentityId, Look};
use crate::compiled::key::key_bytes::Keys;
use crate::compiled::matching::texts::{Pattern, TextMap};
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
    pub(super) fn means<'a>(&self, look: &mut Look<'a>, route: Option<&'a [u8]>) -> bool {
        self.network(look).is_some()
            || self.identities.iter().any(|(id, map)| self.entry(look, *id, map, route).is_some())
    }

    /// The entry that means the client, in words.
    pub(super) fn entry_text<'a>(&self, look: &mut Look<'a>, route: Option<&'a [u8]>) -> Option<String> {
        if let Some(network) = self.network(look) {
            return Some(format!("client_ip {network}"));
        }
        self.identities.iter().find_map(|(id, map)| {
            let pattern = self.entry(look, *id, map, route)?;
            let only = pattern.only.map_or_else(String::new, |only| format!("{}=", look.identities.known(only).name));
            let text = &pattern.text;
            let of = pattern.only.unwrap_or(*id);
            let shown = if text.is_wildcard() { text.0.clone() } else { look.identities.shown(of, text.0.as_bytes()) };
            Some(format!("{} {only}{shown}", look.identities.known(*id).name))
        })
    }

    /// The value for which the client is meant, as keys show it.
    pub(super) fn value_meant<'a>(&self, look: &mut Look<'a>, route: Option<&'a [u8]>) -> Option<Keys> {
        self.identities.iter().find_map(|(id, map)| {
            self.entry(look, *id, map, route)?;
            let found = look.find(*id, route)?;
            let mut value = Keys::new();
            look.identities.push_value(&mut value, found.id, look.text(found));
            Some(value)
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.networks.is_empty() && self.identities.is_empty()
    }

    pub(super) fn needs_peer(&self, identities: &Identities) -> bool {
        !self.networks.is_empty() || self.identities.iter().any(|(id, _)| identities.needs_peer(*id))
    }

    fn network(&self, look: &mut Look<'_>) -> Option<IpNet> {
        if self.networks.is_empty() {
            return None;
        }
        let client = look.client()?;
        let carried = carried(client).filter(|_| !self.grants).map(IpAddr::V4);
        self.networks
            .find(client)
            .chain(carried.into_iter().flat_map(|address| self.networks.find(address)))
            .find_map(|network| *network)
    }

    /// A value that cannot be used is in no list.
    fn entry<'m, 'a>(
        &self,
        look: &mut Look<'a>,
        id: IdentityId,
        map: &'m TextMap<Option<Pattern>>,
        route: Option<&'a [u8]>,
    ) -> Option<&'m Pattern> {
        let found = look.find_usable(id, route)?;
        let in_list = |value: &[u8]| map.find(found.id, value).find_map(Option::as_ref);
        match look.as_sent(found) {
            Some(sent) if self.grants => in_list(&sent),
            Some(sent) => in_list(&sent).or_else(|| in_list(look.text(found))),
            None => in_list(look.text(found)),
        }
    }
}
