//! Parses addresses in the notations of proxies and callers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The largest text that is parsed. It exceeds any address with a zone and a port.
const MAX_TEXT_BYTES: usize = 128;

/// Parses `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]:80` and similar notations. An IPv4-mapped IPv6
/// address becomes the IPv4 address. A zone (`fe80::1%eth0`) names an interface of the machine that wrote it and not
/// another client, so it is ignored.
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

/// Returns the IPv4 address that an IPv6 address embeds: after the well-known prefix of NAT64 (RFC 6052), or in a 6to4
/// network (RFC 3056). Both belong to the same client, and a 6to4 network has 2^80 addresses.
#[inline]
pub(crate) fn embedded_v4(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(address) = address else { return None };
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
        }
        _ => None,
    }
}

/// Returns the address under which a client is counted: the embedded IPv4 address, if there is one.
#[inline]
pub(crate) fn key_address(address: IpAddr) -> IpAddr {
    embedded_v4(address).map_or(address, IpAddr::V4)
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

/// Whether a text is a port: a number, or an obfuscated port of `Forwarded` (RFC 7239).
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
    fn addresses_are_parsed_in_all_notations() {
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
    fn nat64_and_6to4_addresses_embed_an_ipv4_address() {
        for (text, expected) in [
            ("64:ff9b::203.0.113.9", Some("203.0.113.9")),
            ("2002:cb00:7109::", Some("203.0.113.9")),
            ("2002:cb00:7109:ffff:1:2:3:4", Some("203.0.113.9")),
            // For local use: the network defines whether and where an address is embedded.
            ("64:ff9b:1::203.0.113.9", None),
            ("64:ff9b::1:203.0.113.9", None),
            ("2001:db8::203.0.113.9", None),
            ("203.0.113.9", None),
        ] {
            let address = parse(text.as_bytes()).unwrap();
            let embedded = expected.map(|embedded: &str| embedded.parse().unwrap());
            assert_eq!(embedded_v4(address), embedded, "{text}");
            assert_eq!(key_address(address), embedded.map_or(address, IpAddr::V4), "{text}");
        }
    }

    #[test]
    fn texts_that_are_not_addresses_are_rejected() {
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
