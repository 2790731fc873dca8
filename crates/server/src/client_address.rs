use std::net::{IpAddr, Ipv6Addr};

/// The bits of an IPv6 address that tell clients apart. A provider hands every
/// customer at least a /64, so whoever counts single addresses counts nothing.
const IPV6_PREFIX: u32 = 64;

/// The address that a client is counted by.
///
/// An IPv4 address written as IPv6 (`::ffff:203.0.113.9`) is the IPv4 client;
/// otherwise one client could pass for two.
pub(crate) fn counted_address(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) => IpAddr::V4(ip),
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & (u128::MAX << (128 - IPV6_PREFIX)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(ip: &str) -> IpAddr {
        counted_address(ip.parse().unwrap())
    }

    #[test]
    fn an_ipv4_address_is_one_client_however_it_is_written() {
        assert_eq!(counted("203.0.113.9"), counted("::ffff:203.0.113.9"));
        assert_ne!(counted("203.0.113.9"), counted("203.0.113.10"));
    }

    #[test]
    fn an_ipv6_client_is_its_64_bit_prefix() {
        assert_eq!(counted("2001:db8::1"), counted("2001:db8::ffff:0:0:2"));
        assert_ne!(counted("2001:db8::1"), counted("2001:db8:0:1::1"));
    }
}
