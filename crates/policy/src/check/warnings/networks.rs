//! Warns about lists of networks that overlap.

use std::collections::HashSet;

use ipnet::IpNet;

use super::{Reporter, codes};
use crate::model::{AccessList, Policy, TextPattern};

/// The networks that are denied or allowed before any rule.
pub(super) struct AccessNetworks {
    pub(super) denied: NetworkSet,
    pub(super) allowed: NetworkSet,
}

impl AccessNetworks {
    pub(super) fn of(policy: &Policy) -> AccessNetworks {
        AccessNetworks {
            denied: NetworkSet::of(&policy.deny.client_ip),
            allowed: NetworkSet::of(&policy.allow.client_ip),
        }
    }
}

pub(super) fn check(policy: &Policy, top: &mut Reporter<'_>) {
    let proxies = NetworkSet::of(&policy.client_ip.trusted_proxies);
    let denied = NetworkSet::of(&policy.deny.client_ip);
    let mut allow = top.member("allow");
    let allowed = || policy.allow.client_ip.iter().enumerate();
    if let Some((at, network)) = allowed().find(|(_, network)| proxies.overlaps(**network)) {
        let message = format!(
            "{network} contains trusted proxies: a request that a proxy forwards without a client address passes every limit"
        );
        let hint = "allow only addresses that are not proxies, or make sure that the proxies always set the header";
        allow.member("client_ip").item(at).add(codes::ALLOW_COVERS_PROXIES, message, hint);
    }
    if let Some((at, network)) = allowed().find(|(_, network)| denied.overlaps(**network)) {
        let message = format!(
            "{} overlaps with `deny`, which takes precedence: the shared addresses are denied",
            shown(*network)
        );
        allow.member("client_ip").item(at).add(codes::DENY_AND_ALLOW, message, "remove them from one of the two lists");
    }
    let denied: HashSet<(&str, &TextPattern)> = each(&policy.deny).map(|(name, _, pattern)| (name, pattern)).collect();
    // One example is enough.
    if let Some((name, at, _)) = each(&policy.allow).find(|(name, _, pattern)| denied.contains(&(*name, *pattern))) {
        let message = "this value is also in `deny`, which takes precedence: it is denied";
        allow.member(name).item(at).add(codes::DENY_AND_ALLOW, message, "remove it from one of the two lists");
    }
}

/// Iterates over the patterns of a list, with their identity and their index.
fn each(list: &AccessList) -> impl Iterator<Item = (&str, usize, &TextPattern)> {
    list.identities
        .iter()
        .flat_map(|(name, patterns)| patterns.iter().enumerate().map(move |(at, pattern)| (name.as_str(), at, pattern)))
}

/// Formats a network, and a single address without its prefix length.
fn shown(network: IpNet) -> String {
    if network.prefix_len() == network.max_prefix_len() { network.addr().to_string() } else { network.to_string() }
}

/// A set of networks with overlap queries. Two networks share an address only if one contains the other, so a query
/// looks up at most the 129 supernets of a network, whatever the size of the set.
pub(super) struct NetworkSet {
    networks: HashSet<IpNet>,
    /// All supernets of the networks, and the networks themselves.
    supernets: HashSet<IpNet>,
}

impl NetworkSet {
    pub(super) fn of(networks: &[IpNet]) -> NetworkSet {
        let supernets = networks.iter().flat_map(|network| with_supernets(*network)).collect();
        NetworkSet { networks: networks.iter().map(IpNet::trunc).collect(), supernets }
    }

    /// Whether one network of the set contains all of `network`.
    pub(super) fn covers(&self, network: IpNet) -> bool {
        with_supernets(network).any(|outer| self.networks.contains(&outer))
    }

    /// Whether a network of the set shares an address with `network`.
    pub(super) fn overlaps(&self, network: IpNet) -> bool {
        self.covers(network) || self.supernets.contains(&network.trunc())
    }
}

/// Iterates over the network and its supernets.
fn with_supernets(network: IpNet) -> impl Iterator<Item = IpNet> {
    std::iter::successors(Some(network.trunc()), |inner| inner.supernet())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_overlap_if_one_contains_the_other() {
        for (these, other, covers, overlaps) in [
            ("10.0.0.0/8", "10.1.0.0/16", true, true),
            ("10.1.0.0/16", "10.0.0.0/8", false, true),
            ("10.0.0.0/9", "10.128.0.0/9", false, false),
            ("::/0", "10.0.0.0/8", false, false),
            ("::/0", "2001:db8::/32", true, true),
            ("10.0.0.1/32", "10.0.0.1/32", true, true),
        ] {
            let set = NetworkSet::of(&[these.parse().expect(these)]);
            let other: IpNet = other.parse().expect("a network");
            assert_eq!((set.covers(other), set.overlaps(other)), (covers, overlaps), "{these} {other}");
        }
    }
}
