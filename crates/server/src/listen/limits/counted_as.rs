use std::net::{IpAddr, Ipv6Addr};

/// The address that a connection is counted under. One machine can have every address of an IPv6 network of 64 bits.
pub(crate) fn counted_as(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    }
}
