//! Client addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Parses an address, possibly with a port (`192.0.2.1:443`, `[2001:db8::1]:443`) or a zone (`fe80::1%eth0`).
pub(in crate::log) fn parse_address(text: &[u8]) -> Option<IpAddr> {
    match parse_ipv4(text) {
        Some((address, [] | [b':', ..])) => Some(address.into()),
        _ => parse_ipv6(text),
    }
}

/// Parses the IPv4 address at the beginning of a text, and returns what follows it.
#[inline]
pub(in crate::log) fn parse_ipv4(text: &[u8]) -> Option<(Ipv4Addr, &[u8])> {
    let (mut address, mut rest) = (0_u32, text);
    for part in 0..4 {
        if part > 0 {
            rest = rest.strip_prefix(b".")?;
        }
        let mut value = 0_u32;
        let mut digits = 0;
        while let [digit @ b'0'..=b'9', after @ ..] = rest
            && digits < 3
        {
            value = value * 10 + u32::from(digit - b'0');
            digits += 1;
            rest = after;
        }
        if digits == 0 || value > 255 {
            return None;
        }
        address = address << 8 | value;
    }
    Some((Ipv4Addr::from_bits(address), rest))
}

fn parse_ipv6(text: &[u8]) -> Option<IpAddr> {
    let text = match text {
        [b'[', inner @ ..] => &inner[..memchr::memchr(b']', inner)?],
        _ => text,
    };
    let text = &text[..memchr::memchr(b'%', text).unwrap_or(text.len())];
    // The longest address has 45 characters.
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= 45)?;
    text.parse::<Ipv6Addr>().ok().map(IpAddr::from)
}

/// Returns whether a text is a list of addresses, as in X-Forwarded-For.
pub(in crate::log) fn is_address_list(text: &[u8]) -> bool {
    text.split(|byte| *byte == b',').all(|address| parse_address(address.trim_ascii()).is_some())
}

/// Returns the length of a host without its port.
pub(in crate::log) fn split_port(host: &[u8]) -> usize {
    match memchr::memrchr(b':', host) {
        Some(colon) if colon + 1 < host.len() && host[colon + 1..].iter().all(u8::is_ascii_digit) => {
            // A colon within an IPv6 address has another one before it, unless the address is in brackets.
            if host.starts_with(b"[") || memchr::memchr(b':', &host[..colon]).is_none() { colon } else { host.len() }
        }
        _ => host.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_address_list, parse_address, split_port};

    #[test]
    fn addresses_are_parsed_with_ports_and_zones() {
        for (text, address) in [
            ("192.0.2.1", "192.0.2.1"),
            ("255.255.255.255:65535", "255.255.255.255"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("::ffff:192.0.2.1", "::ffff:192.0.2.1"),
            ("fe80::1%eth0", "fe80::1"),
        ] {
            assert_eq!(parse_address(text.as_bytes()), text_address(address), "{text}");
        }
    }

    #[test]
    fn other_texts_are_not_addresses() {
        for text in ["", "-", "unix:", "192.0.2", "192.0.2.256", "192.0.2.1.5", "192.0.2.1234", "1..2.3", "[::1", "a:b"]
        {
            assert_eq!(parse_address(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn lists_of_addresses_contain_nothing_else() {
        assert!(is_address_list(b"192.0.2.1") && is_address_list(b"192.0.2.1, 2001:db8::1,10.0.0.1"));
        assert!(!is_address_list(b"") && !is_address_list(b"-") && !is_address_list(b"192.0.2.1, unknown"));
    }

    #[test]
    fn only_ports_are_removed_from_hosts() {
        for (host, name) in [
            ("example.com:8443", "example.com"),
            ("example.com", "example.com"),
            ("example.com:", "example.com:"),
            ("[2001:db8::1]:443", "[2001:db8::1]"),
            ("2001:db8::1", "2001:db8::1"),
        ] {
            assert_eq!(split_port(host.as_bytes()), name.len(), "{host}");
        }
    }

    fn text_address(text: &str) -> Option<std::net::IpAddr> {
        text.parse().ok()
    }
}
