//! What one rule asks of a request, by itself: for the conditions that are not
//! worth an index, and for telling people why a rule does not apply.

use std::net::IpAddr;

use crate::compiled::address::carried;
use crate::compiled::address::networks::{NetworkMap, meant};
use crate::compiled::identity::{Identities, IdentityId, RequestValues};
use crate::compiled::matching::texts::Test;
use crate::model::{Networks, When};

/// The conditions of a rule on values and addresses. Methods, hosts and paths are always indexed.
#[derive(Debug)]
pub(crate) struct Conditions {
    pub(crate) tests: Vec<(IdentityId, Test)>,
    pub(crate) network: Option<NetworkMap<()>>,
    /// Whether the client is to come from elsewhere.
    pub(crate) outside: bool,
}

impl Conditions {
    pub(crate) fn compile(when: &When, identities: &mut Identities) -> Conditions {
        let mut tests = Vec::new();
        for (name, condition) in &when.headers {
            let id = identities.header(name);
            tests.push((id, Test::compile(condition, |pattern| identities.pattern(id, pattern))));
        }
        for (name, condition) in &when.identities {
            let id = identities.id(name);
            tests.push((id, Test::compile(condition, |pattern| identities.pattern(id, pattern))));
        }
        let network = when.network.as_ref().map(|networks| {
            let mut map = NetworkMap::new();
            for network in meant(networks) {
                map.entry(network);
            }
            map
        });
        let outside = when.network.as_ref().is_some_and(Networks::is_outside);
        Conditions { tests, network, outside }
    }

    /// Whether the client may come from where the rule says, by its address or by the one that it carries. A client of
    /// unknown address comes from no network.
    pub(crate) fn is_from(&self, client: Option<IpAddr>) -> bool {
        self.is_surely_from(client) || client.and_then(carried).is_some_and(|v4| self.is_surely_from(Some(v4.into())))
    }

    /// The same by the address as it was sent.
    fn is_surely_from(&self, client: Option<IpAddr>) -> bool {
        let Some(network) = &self.network else { return true };
        client.is_some_and(|client| network.contains(client)) != self.outside
    }

    /// Whether all conditions on values and addresses hold beyond doubt, which is what an exemption takes.
    pub(crate) fn surely_hold(&self, values: &RequestValues<'_>, route: Option<&[u8]>) -> bool {
        let tests = self.tests.iter().all(|(id, test)| values.surely_passes(*id, test, route));
        tests && (self.network.is_none() || values.client().is_some_and(|client| self.surely_come_from(client)))
    }

    /// A client that is to come from elsewhere must do so by both addresses.
    fn surely_come_from(&self, client: IpAddr) -> bool {
        let carried = carried(client).filter(|_| self.outside);
        self.is_surely_from(Some(client)) && carried.is_none_or(|v4| self.is_surely_from(Some(v4.into())))
    }

    /// Whether the test at a position holds.
    pub(crate) fn holds(&self, at: usize, values: &RequestValues<'_>, route: Option<&[u8]>) -> bool {
        let Some((id, test)) = self.tests.get(at) else { return true };
        values.passes(*id, test, route)
    }
}
