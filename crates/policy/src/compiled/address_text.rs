//! Addresses as text: one for each address, or for each group of addresses that counts as one client.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smallvec::{Array, SmallVec};

use super::networks::mask;

/// Which bits of an address tell clients apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prefixes {
    pub(super) v4: u8,
    pub(super) v6: u8,
}

/// All of them.
pub(super) const WHOLE: Prefixes = Prefixes { v4: 32, v6: 128 };

/// Writes the part of an address that counts: `203.0.113.9`, or
/// `2001:db8:1:2::/64` where only 64 bits count. The standard library would
/// write the same, in the time that the rest of a request takes.
pub(super) fn push_client<A: Array<Item = u8>>(text: &mut SmallVec<A>, address: IpAddr, prefixes: Prefixes) {
    let mut line = Line { bytes: [0; 64], len: 0 };
    match mask(address, prefixes.v4, prefixes.v6) {
        IpAddr::V4(address) => {
            push_v4(&mut line, address);
            push_length(&mut line, prefixes.v4, 32);
        }
        IpAddr::V6(address) => {
            push_v6(&mut line, address);
            push_length(&mut line, prefixes.v6, 128);
        }
    }
    text.extend_from_slice(&line.bytes[..line.len]);
}

/// Room for the longest text: eight groups of four digits, seven colons, and a length such as `/127`.
struct Line {
    bytes: [u8; 64],
    len: usize,
}

impl Line {
    fn push(&mut self, byte: u8) {
        self.bytes[self.len % 64] = byte;
        self.len += 1;
    }
}

fn push_length(text: &mut Line, length: u8, whole: u8) {
    if length < whole {
        text.push(b'/');
        push_decimal(text, length);
    }
}

fn push_v4(text: &mut Line, address: Ipv4Addr) {
    for (at, octet) in address.octets().into_iter().enumerate() {
        if at > 0 {
            text.push(b'.');
        }
        push_decimal(text, octet);
    }
}

fn push_decimal(text: &mut Line, number: u8) {
    if number >= 100 {
        text.push(b'0' + number / 100);
    }
    if number >= 10 {
        text.push(b'0' + number / 10 % 10);
    }
    text.push(b'0' + number % 10);
}

/// As RFC 5952 says: the first longest run of two or more zero groups is `::`.
fn push_v6(text: &mut Line, address: Ipv6Addr) {
    let groups = address.segments();
    let (start, end) = longest_zeros(&groups);
    for (at, group) in groups.into_iter().enumerate() {
        if (start..end).contains(&at) {
            if at == start {
                text.push(b':');
                text.push(b':');
            }
            continue;
        }
        if at > 0 && at != end {
            text.push(b':');
        }
        push_hex_group(text, group);
    }
}

/// Where the zeros are that are left out; an empty range beyond the end if none are.
fn longest_zeros(groups: &[u16; 8]) -> (usize, usize) {
    let mut longest = (9, 9);
    let mut start = 0;
    for (at, group) in groups.iter().enumerate() {
        if *group != 0 {
            start = at + 1;
        } else if at + 1 - start >= 2 && at + 1 - start > longest.1 - longest.0 {
            longest = (start, at + 1);
        }
    }
    longest
}

fn push_hex_group(text: &mut Line, group: u16) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = [12, 8, 4, 0].map(|shift| DIGITS[usize::from(group >> shift & 15)]);
    let leading = digits[..3].iter().take_while(|digit| **digit == b'0').count();
    digits[leading..].iter().for_each(|digit| text.push(*digit));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(address: IpAddr, v4: u8, v6: u8) -> String {
        let mut text = SmallVec::<[u8; 64]>::new();
        push_client(&mut text, address, Prefixes { v4, v6 });
        String::from_utf8(text.to_vec()).unwrap()
    }

    #[test]
    fn groups_are_written_with_their_length() {
        for (address, v4, v6, expected) in [
            ("203.0.113.9", 32, 64, "203.0.113.9"),
            ("203.0.113.9", 24, 64, "203.0.113.0/24"),
            ("203.0.113.9", 0, 64, "0.0.0.0/0"),
            ("2001:db8:1:2:3:4:5:6", 32, 64, "2001:db8:1:2::/64"),
            ("2001:db8:1:2:3:4:5:6", 32, 128, "2001:db8:1:2:3:4:5:6"),
            ("2001:db8:1:2:3:4:5:6", 32, 56, "2001:db8:1::/56"),
            ("::1", 32, 64, "::/64"),
        ] {
            assert_eq!(text(address.parse().unwrap(), v4, v6), expected);
        }
    }

    proptest! {
        #[test]
        fn it_is_what_the_standard_library_writes(groups in any::<[u16; 8]>(), zeros in any::<u8>(), v4 in any::<[u8; 4]>()) {
            let mut groups = groups;
            for (at, group) in groups.iter_mut().enumerate() {
                if zeros >> at & 1 == 1 {
                    *group = 0;
                }
            }
            let v6 = Ipv6Addr::from(groups);
            // Those two have a dotted form, which the keys of IPv6 do not need.
            prop_assume!(v6.to_ipv4_mapped().is_none() && v6.to_ipv4().is_none());
            prop_assert_eq!(text(v6.into(), 32, 128), v6.to_string());
            prop_assert_eq!(text(v4.into(), 32, 128), Ipv4Addr::from(v4).to_string());
        }
    }
}
