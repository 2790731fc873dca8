//! The clients of a log, numbered in the order of their first request.

use std::collections::HashMap;
use std::net::IpAddr;

use foldhash::fast::RandomState;

use super::to_u32;

/// The name of a client: an address, or another value of the log.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClientName {
    /// An address.
    Address(IpAddr),
    /// A user, a path, or another value.
    Text(Box<str>),
}

impl std::fmt::Display for ClientName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ClientName::Address(address) => write!(f, "{address}"),
            ClientName::Text(text) => f.write_str(text),
        }
    }
}

/// Numbers clients.
#[derive(Default)]
pub(crate) struct ClientIndex {
    /// By kind, because entries of IPv4 addresses are a quarter as large, and a cache holds more of them.
    ipv4: HashMap<u32, u32, RandomState>,
    ipv6: HashMap<u128, u32, RandomState>,
    texts: HashMap<Box<str>, u32, RandomState>,
    names: Vec<ClientName>,
}

impl ClientIndex {
    /// Returns the number of an address. An IPv4 address that is mapped to IPv6 is the IPv4 address.
    pub(crate) fn address(&mut self, address: IpAddr) -> u32 {
        let names = &mut self.names;
        let mut add = |address| {
            names.push(ClientName::Address(address));
            to_u32(names.len() - 1)
        };
        match address.to_canonical() {
            IpAddr::V4(ipv4) => *self.ipv4.entry(ipv4.to_bits()).or_insert_with(|| add(IpAddr::V4(ipv4))),
            IpAddr::V6(ipv6) => *self.ipv6.entry(ipv6.to_bits()).or_insert_with(|| add(IpAddr::V6(ipv6))),
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
        assert_eq!((table.len(), table.name(first).to_string()), (2, "203.0.113.9".to_owned()));
    }
}
