//! Maps from networks to values.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use foldhash::fast::FixedState;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::model::Networks;

/// A map by networks. A lookup takes one probe for each prefix length that occurs, whatever the number of networks.
#[derive(Clone, Debug)]
pub(crate) struct NetworkMap<T> {
    v4: Vec<(u8, HashMap<Ipv4Addr, T, FixedState>)>,
    v6: Vec<(u8, HashMap<Ipv6Addr, T, FixedState>)>,
}

impl<T: Default> NetworkMap<T> {
    /// Creates an empty map.
    pub(crate) fn new() -> NetworkMap<T> {
        NetworkMap { v4: Vec::new(), v6: Vec::new() }
    }

    /// Returns the value of this network, and inserts the default if it is missing.
    pub(crate) fn entry(&mut self, network: IpNet) -> &mut T {
        match unmapped(network) {
            IpNet::V4(network) => by_length(&mut self.v4, network.prefix_len()).entry(network.network()).or_default(),
            IpNet::V6(network) => by_length(&mut self.v6, network.prefix_len()).entry(network.network()).or_default(),
        }
    }
}

impl<T> NetworkMap<T> {
    /// Returns the value of each network that contains the address, the smallest network first.
    pub(crate) fn find(&self, address: IpAddr) -> impl Iterator<Item = &T> {
        let (v4, v6) = match address {
            IpAddr::V4(address) => (Some(address), None),
            IpAddr::V6(address) => (None, Some(address)),
        };
        let v4 = v4.into_iter().flat_map(|address| {
            self.v4.iter().filter_map(move |(length, known)| known.get(&mask_v4(address, *length)))
        });
        let v6 = v6.into_iter().flat_map(|address| {
            self.v6.iter().filter_map(move |(length, known)| known.get(&mask_v6(address, *length)))
        });
        v4.chain(v6)
    }

    /// Whether any network contains the address.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.find(address).next().is_some()
    }

    /// Whether the map is empty.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }
}

/// Returns a network without its host bits. An IPv4-mapped IPv6 network becomes an IPv4 network, as addresses do.
pub(crate) fn unmapped(network: IpNet) -> IpNet {
    if let IpNet::V6(v6) = network
        && let (Some(address), Some(length)) = (v6.addr().to_ipv4_mapped(), v6.prefix_len().checked_sub(96))
        && let Ok(v4) = Ipv4Net::new(address, length)
    {
        return IpNet::V4(v4).trunc();
    }
    network.trunc()
}

/// Returns the networks that a condition names, also if the client must be outside of them.
pub(crate) fn named_networks(networks: &Networks) -> Vec<IpNet> {
    match networks {
        Networks::Internal | Networks::NotInternal => internal(),
        Networks::Among(networks) | Networks::NotAmong(networks) => networks.clone(),
    }
}

/// Returns the internal networks: RFC 1918, loopback, link-local and unique local addresses. The shared addresses of
/// RFC 6598 (100.64.0.0/10) are not internal: they belong to a carrier's customers, not to the operator.
fn internal() -> Vec<IpNet> {
    let v4 = [
        ([10, 0, 0, 0], 8),
        ([172, 16, 0, 0], 12),
        ([192, 168, 0, 0], 16),
        ([127, 0, 0, 0], 8),
        ([169, 254, 0, 0], 16),
    ];
    let v6 = [
        (Ipv6Addr::LOCALHOST, 128),
        (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10),
        (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7),
    ];
    let v4 = v4.into_iter().filter_map(|(address, length)| Ipv4Net::new(address.into(), length).ok()).map(IpNet::V4);
    let v6 = v6.into_iter().filter_map(|(address, length)| Ipv6Net::new(address, length).ok()).map(IpNet::V6);
    v4.chain(v6).collect()
}

/// Returns the address with only its first bits, by the length for its version.
pub(crate) fn mask(address: IpAddr, v4_length: u8, v6_length: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => IpAddr::V4(mask_v4(address, v4_length)),
        IpAddr::V6(address) => IpAddr::V6(mask_v6(address, v6_length)),
    }
}

fn mask_v4(address: Ipv4Addr, length: u8) -> Ipv4Addr {
    let dropped = 32_u32.saturating_sub(length.into());
    Ipv4Addr::from_bits(u32::MAX.checked_shl(dropped).unwrap_or(0) & address.to_bits())
}

fn mask_v6(address: Ipv6Addr, length: u8) -> Ipv6Addr {
    let dropped = 128_u32.saturating_sub(length.into());
    Ipv6Addr::from_bits(u128::MAX.checked_shl(dropped).unwrap_or(0) & address.to_bits())
}

/// Returns the map of a prefix length, and inserts it if it is missing. Longer prefixes are first.
fn by_length<K, T>(maps: &mut Vec<(u8, HashMap<K, T, FixedState>)>, length: u8) -> &mut HashMap<K, T, FixedState> {
    let index = maps.iter().position(|(known, _)| *known <= length).unwrap_or(maps.len());
    if maps.get(index).is_none_or(|(known, _)| *known != length) {
        maps.insert(index, (length, HashMap::default()));
    }
    &mut maps[index].1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(networks: &[&str]) -> NetworkMap<String> {
        let mut map = NetworkMap::<String>::new();
        for network in networks {
            *map.entry(network.parse().unwrap()) = (*network).to_owned();
        }
        map
    }

    #[test]
    fn networks_of_an_address_are_found_smallest_first() {
        let map = map(&["10.0.0.0/8", "10.1.0.0/16", "0.0.0.0/0", "2001:db8::/32", "::/0", "10.1.2.3/32"]);
        let found = |address: &str| map.find(address.parse().unwrap()).map(String::as_str).collect::<Vec<_>>();
        assert_eq!(found("10.1.2.3"), ["10.1.2.3/32", "10.1.0.0/16", "10.0.0.0/8", "0.0.0.0/0"]);
        assert_eq!(found("11.0.0.1"), ["0.0.0.0/0"]);
        assert_eq!(found("2001:db8::1"), ["2001:db8::/32", "::/0"]);
    }

    #[test]
    fn host_bits_are_ignored_and_mapped_networks_are_ipv4() {
        let map = map(&["10.9.9.9/8", "::ffff:192.0.2.0/120"]);
        assert!(map.contains("10.1.1.1".parse().unwrap()));
        assert!(map.contains("192.0.2.7".parse().unwrap()));
        assert!(!map.contains("192.0.3.7".parse().unwrap()));
    }

    #[test]
    fn internal_networks_contain_private_and_no_public_addresses() {
        let mut map = NetworkMap::<()>::new();
        internal().into_iter().for_each(|network| *map.entry(network) = ());
        for inside in ["10.0.0.1", "172.31.0.1", "192.168.1.1", "127.0.0.2", "169.254.1.1", "::1", "fe80::1", "fd00::1"]
        {
            assert!(map.contains(inside.parse().unwrap()), "{inside}");
        }
        for outside in ["172.32.0.1", "100.64.0.1", "8.8.8.8", "2001:db8::1", "::2", "fec0::1"] {
            assert!(!map.contains(outside.parse().unwrap()), "{outside}");
        }
    }
}
