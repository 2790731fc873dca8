//! Addresses as proxies and callers write them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Longer than any address with a zone and a port; what is beyond is none.
const MAX_TEXT_BYTES: usize = 128;

/// Reads `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]:80` and the
/// like. An IPv4 address in the guise of an IPv6 address is the IPv4 address.
/// A zone (`fe80::1%eth0`) names an interface of the machine that wrote it, no
/// other client, so it does not count.
pub(crate) fn parse(text: &[u8]) -> Option<IpAddr> {
    let text = text.trim_ascii();
    if text.len() > MAX_TEXT_BYTES {
        return None;
    }
    let text = std::str::from_utf8(text).ok()?;
    let address = match text.strip_prefix('[') {
        Some(bracketed) => in_brackets(bracketed)?,
        None => bare(text)?,
    };
    Some(address.to_canonical())
}

/// The IPv4 address that an IPv6 address carries: behind the well-known prefix
/// of NAT64 (RFC 6052), or in a 6to4 network (RFC 3056). Who holds the one
/// holds the other, with 2^80 addresses in a network of 6to4.
#[inline]
pub(crate) fn carried(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(address) = address else { return None };
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
        }
        _ => None,
    }
}

/// The address under which a client is counted.
#[inline]
pub(crate) fn counted(address: IpAddr) -> IpAddr {
    carried(address).map_or(address, IpAddr::V4)
}

fn in_brackets(text: &str) -> Option<IpAddr> {
    let (address, port) = text.split_once(']')?;
    if !port.is_empty() && !is_port(port.strip_prefix(':')?) {
        return None;
    }
    Some(IpAddr::V6(v6(address)?))
}

fn bare(text: &str) -> Option<IpAddr> {
    if let Some((address, port)) = text.split_once(':')
        && address.contains('.')
        && is_port(port)
    {
        return Some(IpAddr::V4(address.parse().ok()?));
    }
    text.parse().ok().map(IpAddr::V4).or_else(|| v6(text).map(IpAddr::V6))
}

fn v6(text: &str) -> Option<Ipv6Addr> {
    let address = match text.split_once('%') {
        Some((address, zone)) if !zone.is_empty() => address,
        Some(_) => return None,
        None => text,
    };
    address.parse().ok()
}

/// A number, or in `Forwarded` a word that hides it.
fn is_port(port: &str) -> bool {
    match port.strip_prefix('_') {
        Some(hidden) => {
            !hidden.is_empty() && hidden.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        }
        None => port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_many_guises() {
        for (text, address) in [
            ("192.0.2.1", "192.0.2.1"),
            (" 192.0.2.1\t", "192.0.2.1"),
            ("192.0.2.1:5678", "192.0.2.1"),
            ("192.0.2.1:_hidden", "192.0.2.1"),
            ("2001:db8::1", "2001:db8::1"),
            ("2001:DB8:0:0:0:0:0:1", "2001:db8::1"),
            ("2001:0db8::0001", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:80", "2001:db8::1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("[::ffff:c000:201]:80", "192.0.2.1"),
            ("fe80::1%eth0", "fe80::1"),
            ("[fe80::1%25]:80", "fe80::1"),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(address.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn some_addresses_carry_another() {
        for (text, expected) in [
            ("64:ff9b::203.0.113.9", Some("203.0.113.9")),
            ("2002:cb00:7109::", Some("203.0.113.9")),
            ("2002:cb00:7109:ffff:1:2:3:4", Some("203.0.113.9")),
            // For local use: what it carries, and where, is for its network to say.
            ("64:ff9b:1::203.0.113.9", None),
            ("64:ff9b::1:203.0.113.9", None),
            ("2001:db8::203.0.113.9", None),
            ("203.0.113.9", None),
        ] {
            let address = parse(text.as_bytes()).unwrap();
            let inside = expected.map(|inside: &str| inside.parse().unwrap());
            assert_eq!(carried(address), inside, "{text}");
            assert_eq!(counted(address), inside.map_or(address, IpAddr::V4), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_none() {
        let long = "1".repeat(1_000);
        for text in [
            "",
            "unknown",
            "_hidden",
            "192.0.2.1:",
            "192.0.2.1:99999",
            "192.0.2.1:80:80",
            "192.0.2.01",
            "192.0.2",
            "192.0.2.1.",
            "[192.0.2.1]",
            "[::1",
            "::1]",
            "[::1]80",
            "[::1]:",
            "::1%",
            "192.0.2.1%eth0",
            "a:80",
            ":80",
            "1.2.3.4 5.6.7.8",
            "2001:db8::1:99999",
            "192.0.2.1:+8",
            &long,
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse(b"\xff"), None);
    }
}
