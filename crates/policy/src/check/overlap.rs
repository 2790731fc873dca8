//! Whether networks have addresses in common.

use std::collections::HashSet;

use ipnet::IpNet;

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
