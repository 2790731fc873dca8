//! The clients of a log, numbered in the order of their first request.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use foldhash::fast::RandomState;

use super::to_u32;

/// The name of a client: an address, or another value of the log.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClientName {
    /// An IPv4 address.
    Address(Ipv4Addr),
    /// An IPv6 network of 64 bits. Providers assign at least that to every customer, and policies count by it unless
    /// they set another prefix.
    Network(Ipv6Addr),
    /// A user, a path, or another value.
    Text(Box<str>),
}

impl std::fmt::Display for ClientName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ClientName::Address(address) => write!(f, "{address}"),
            ClientName::Network(network) => write!(f, "{network}/64"),
            ClientName::Text(text) => f.write_str(text),
        }
    }
}

/// Numbers clients.
#[derive(Default)]
pub(crate) struct ClientIndex {
    /// By kind, because entries of IPv4 addresses are half as large, and a cache holds more of them.
    ipv4: HashMap<u32, u32, RandomState>,
    ipv6: HashMap<u64, u32, RandomState>,
    texts: HashMap<Box<str>, u32, RandomState>,
    names: Vec<ClientName>,
}

impl ClientIndex {
    /// Returns the number of an address. An IPv4 address that is mapped to IPv6 is the IPv4 address; IPv6 addresses of
    /// one network are one client.
    pub(crate) fn address(&mut self, address: IpAddr) -> u32 {
        let names = &mut self.names;
        let mut add = |name| {
            names.push(name);
            to_u32(names.len() - 1)
        };
        match address.to_canonical() {
            IpAddr::V4(ipv4) => *self.ipv4.entry(ipv4.to_bits()).or_insert_with(|| add(ClientName::Address(ipv4))),
            IpAddr::V6(ipv6) => {
                let network = (ipv6.to_bits() >> 64) as u64;
                let name = || ClientName::Network(Ipv6Addr::from_bits(u128::from(network) << 64));
                *self.ipv6.entry(network).or_insert_with(|| add(name()))
            }
        }
    }

    /// Returns the number of a text.
    pub(crate) fn text(&mut self, text: &str) -> u32 {
        if let Some(known) = self.texts.get(text) {
            return *known;
        }
        let number = to_u32(self.names.len());
        self.names.push(ClientName::Text(text.into()));
        self.texts.insert(text.into(), number);
        number
    }

    /// Returns the number of clients.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns the name of a client.
    pub(crate) fn name(&self, number: u32) -> &ClientName {
        &self.names[number as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_keeps_its_number() {
        let mut table = ClientIndex::default();
        let first = table.address("203.0.113.9".parse().unwrap());
        assert_eq!(table.text("203.0.113.9"), 1, "a text is not an address");
        assert_eq!(table.address("::ffff:203.0.113.9".parse().unwrap()), first);
        assert_eq!(table.text("203.0.113.9"), 1);
        let ipv6 = table.address("2001:db8::1".parse().unwrap());
        assert_eq!(table.address("2001:db8::2".parse().unwrap()), ipv6, "the same network");
        assert_ne!(table.address("2001:db8:0:1::1".parse().unwrap()), ipv6);
        assert_eq!(table.name(ipv6).to_string(), "2001:db8::/64");
        assert_eq!((table.len(), table.name(first).to_string()), (4, "203.0.113.9".to_owned()));
    }
}
