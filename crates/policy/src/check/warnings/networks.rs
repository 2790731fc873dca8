//! Lists of networks that get into each other's way.

use std::collections::HashSet;

use ipnet::IpNet;

use super::{Reporter, codes};
use crate::model::{AccessList, Policy, TextPattern};

/// The networks that never meet a rule.
pub(super) struct Access {
    pub(super) denied: NetworkSet,
    pub(super) allowed: NetworkSet,
}

impl Access {
    pub(super) fn of(policy: &Policy) -> Access {
        Access { denied: NetworkSet::of(&policy.deny.client_ip), allowed: NetworkSet::of(&policy.allow.client_ip) }
    }
}

pub(super) fn check(policy: &Policy, top: &mut Reporter<'_>) {
    let proxies = NetworkSet::of(&policy.client_ip.trusted_proxies);
    let denied = NetworkSet::of(&policy.deny.client_ip);
    let mut allow = top.member("allow");
    let allowed = || policy.allow.client_ip.iter().enumerate();
    if let Some((at, network)) = allowed().find(|(_, network)| proxies.touches(**network)) {
        let message = format!(
            "{network} has trusted proxies in it: whatever a proxy sends without saying for whom passes every limit"
        );
        let hint = "allow only addresses that are no proxies, or make sure that the proxies always set the header";
        allow.member("client_ip").item(at).add(codes::ALLOW_COVERS_PROXIES, message, hint);
    }
    if let Some((at, network)) = allowed().find(|(_, network)| denied.touches(**network)) {
        let message =
            format!("{} shares addresses with `deny`, which comes first: those are turned away", shown(*network));
        allow.member("client_ip").item(at).add(codes::DENY_AND_ALLOW, message, "take them out of one of the two lists");
    }
    let denied: HashSet<(&str, &TextPattern)> = each(&policy.deny).map(|(name, _, pattern)| (name, pattern)).collect();
    // One is enough to see what is meant.
    if let Some((name, at, _)) = each(&policy.allow).find(|(name, _, pattern)| denied.contains(&(*name, *pattern))) {
        let message = "this is in `deny` as well, which comes first: it is turned away";
        allow.member(name).item(at).add(codes::DENY_AND_ALLOW, message, "take it out of one of the two lists");
    }
}

/// Every pattern of a list, with the identity and its position there.
fn each(list: &AccessList) -> impl Iterator<Item = (&str, usize, &TextPattern)> {
    list.identities
        .iter()
        .flat_map(|(name, patterns)| patterns.iter().enumerate().map(move |(at, pattern)| (name.as_str(), at, pattern)))
}

/// A single address as people write it.
fn shown(network: IpNet) -> String {
    if network.prefix_len() == network.max_prefix_len() { network.addr().to_string() } else { network.to_string() }
}

/// Networks, to be asked about others. Two networks share an address only if
/// one lies within the other, so each question looks at no more than the 129
/// surroundings of a network, however many there are.
pub(super) struct NetworkSet {
    networks: HashSet<IpNet>,
    /// Everything that has one of them in it.
    around: HashSet<IpNet>,
}

impl NetworkSet {
    pub(super) fn of(networks: &[IpNet]) -> NetworkSet {
        let around = networks.iter().flat_map(|network| surroundings(*network)).collect();
        NetworkSet { networks: networks.iter().map(IpNet::trunc).collect(), around }
    }

    /// Whether every address of the network is in one of these.
    pub(super) fn covers(&self, network: IpNet) -> bool {
        surroundings(network).any(|outer| self.networks.contains(&outer))
    }

    /// Whether any is.
    pub(super) fn touches(&self, network: IpNet) -> bool {
        self.covers(network) || self.around.contains(&network.trunc())
    }
}

/// The network and every larger one around it.
fn surroundings(network: IpNet) -> impl Iterator<Item = IpNet> {
    std::iter::successors(Some(network.trunc()), |inner| inner.supernet())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_within_the_other_touches() {
        for (these, asked, covers, touches) in [
            ("10.0.0.0/8", "10.1.0.0/16", true, true),
            ("10.1.0.0/16", "10.0.0.0/8", false, true),
            ("10.0.0.0/9", "10.128.0.0/9", false, false),
            ("::/0", "10.0.0.0/8", false, false),
            ("::/0", "2001:db8::/32", true, true),
            ("10.0.0.1/32", "10.0.0.1/32", true, true),
        ] {
            let set = NetworkSet::of(&[these.parse().expect(these)]);
            let asked: IpNet = asked.parse().expect("a network");
            assert_eq!((set.covers(asked), set.touches(asked)), (covers, touches), "{these} {asked}");
        }
    }
}
