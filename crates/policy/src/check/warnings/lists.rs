//! Lists of networks that get into each other's way.

use std::collections::HashSet;

use ipnet::IpNet;

use super::super::codes;
use super::super::overlap::NetworkSet;
use super::super::problems::Problems;
use crate::model::{AccessList, Policy, TextPattern};
use crate::problem::Place;

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

pub(super) fn check(policy: &Policy, problems: &mut Problems) {
    let proxies = NetworkSet::of(&policy.client_ip.trusted_proxies);
    let denied = NetworkSet::of(&policy.deny.client_ip);
    let allow = Place::top().member("allow");
    let place = allow.member("client_ip");
    let allowed = || policy.allow.client_ip.iter().enumerate();
    if let Some((at, network)) = allowed().find(|(_, network)| proxies.touches(**network)) {
        let message = format!(
            "{network} has trusted proxies in it: whatever a proxy sends without saying for whom passes every limit"
        );
        let hint = "allow only addresses that are no proxies, or make sure that the proxies always set the header";
        problems.add(codes::ALLOW_COVERS_PROXIES, place.item(at), message, hint);
    }
    if let Some((at, network)) = allowed().find(|(_, network)| denied.touches(**network)) {
        let message =
            format!("{} shares addresses with `deny`, which comes first: those are turned away", shown(*network));
        problems.add(codes::DENY_AND_ALLOW, place.item(at), message, "take them out of one of the two lists");
    }
    let denied: HashSet<(&str, &TextPattern)> = each(&policy.deny).map(|(name, _, pattern)| (name, pattern)).collect();
    // One is enough to see what is meant.
    if let Some((name, at, _)) = each(&policy.allow).find(|(name, _, pattern)| denied.contains(&(*name, *pattern))) {
        let message = "this is in `deny` as well, which comes first: it is turned away";
        problems.add(
            codes::DENY_AND_ALLOW,
            allow.member(name).item(at),
            message,
            "take it out of one of the two lists",
        );
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
