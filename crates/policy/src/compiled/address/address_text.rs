//! Formats addresses for keys: one text for each address, or for each network that counts as one client.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smallvec::{Array, SmallVec};

use crate::compiled::address::networks::mask;

/// The lengths of the address prefixes that distinguish clients.
#[derive(Clone, Copy, Debug)]
pub(in crate::compiled) struct Prefixes {
    pub(in crate::compiled) v4: u8,
    pub(in crate::compiled) v6: u8,
}

/// The lengths of full addresses.
pub(in crate::compiled) const WHOLE: Prefixes = Prefixes { v4: 32, v6: 128 };

/// Writes the prefix of an address that distinguishes clients: `203.0.113.9`, or `2001:db8:1:2::/64` for a prefix of 64
/// bits. The standard library writes the same, but takes as long as the rest of a request.
#[inline]
pub(in crate::compiled) fn push_client<A: Array<Item = u8>>(
    text: &mut SmallVec<A>,
    address: IpAddr,
    prefixes: Prefixes,
) {
    if let (IpAddr::V4(address), 32..) = (address, prefixes.v4) {
        let (bytes, length) = v4_text(address);
        return text.extend_from_slice(&bytes[..length]);
    }
    push_network(text, mask(address, prefixes.v4, prefixes.v6), prefixes);
}

fn push_network<A: Array<Item = u8>>(text: &mut SmallVec<A>, network: IpAddr, prefixes: Prefixes) {
    let mut buffer = TextBuffer { bytes: [0; 64], len: 0 };
    match network {
        IpAddr::V4(address) => {
            let (bytes, length) = v4_text(address);
            bytes[..length].iter().for_each(|byte| buffer.push(*byte));
            push_length(&mut buffer, prefixes.v4, 32);
        }
        IpAddr::V6(address) => {
            push_v6(&mut buffer, address);
            push_length(&mut buffer, prefixes.v6, 128);
        }
    }
    text.extend_from_slice(&buffer.bytes[..buffer.len]);
}

/// A buffer for the longest text: eight groups of four digits, seven colons, and a length such as `/127`.
struct TextBuffer {
    bytes: [u8; 64],
    len: usize,
}

impl TextBuffer {
    fn push(&mut self, byte: u8) {
        self.bytes[self.len % 64] = byte;
        self.len += 1;
    }
}

fn push_length(text: &mut TextBuffer, length: u8, whole: u8) {
    if length < whole {
        text.push(b'/');
        push_decimal(text, length);
    }
}

/// The digits of each octet and a dot, as the lowest bytes of a number, and the number of these bytes.
static OCTETS: [(u32, u8); 256] = {
    let mut octets = [(0, 0); 256];
    let mut octet = 0_usize;
    while octet < 256 {
        let digits = [b'0' + (octet / 100) as u8, b'0' + (octet / 10 % 10) as u8, b'0' + (octet % 10) as u8];
        octets[octet] = match octet {
            0..10 => (u32::from_le_bytes([digits[2], b'.', 0, 0]), 2),
            10..100 => (u32::from_le_bytes([digits[1], digits[2], b'.', 0]), 3),
            _ => (u32::from_le_bytes([digits[0], digits[1], digits[2], b'.']), 4),
        };
        octet += 1;
    }
    octets
};

/// Returns the text of an address as a little-endian integer (the first character is the lowest byte), and its length
/// in bytes. It is composed in registers, because reading four separate writes to memory as one value is slow.
#[inline(always)]
pub(in crate::compiled) fn v4_packed_text(address: Ipv4Addr) -> (u128, usize) {
    let two = |first: u8, second: u8| {
        let ((first, length), (second, more)) = (OCTETS[usize::from(first)], OCTETS[usize::from(second)]);
        (u64::from(first) | u64::from(second) << (8 * length), usize::from(length + more))
    };
    let [a, b, c, d] = address.octets();
    let ((left, left_length), (right, right_length)) = (two(a, b), two(c, d));
    // Remove the dot after the last octet.
    let right_length = right_length - 1;
    let right = right & (u64::MAX >> (64 - 8 * right_length));
    (u128::from(left) | u128::from(right) << (8 * left_length), left_length + right_length)
}

/// Returns the text of an address followed by a dot, and its length without that dot.
#[inline]
pub(in crate::compiled) fn v4_text(address: Ipv4Addr) -> ([u8; 20], usize) {
    let mut text = [0; 20];
    let mut end = 0;
    for octet in address.octets() {
        let (digits, length) = OCTETS[usize::from(octet)];
        // `end` is at most 12 here. The mask lets the compiler omit a bounds check.
        let start = end & 15;
        text[start..start + 4].copy_from_slice(&digits.to_le_bytes());
        end += usize::from(length);
    }
    (text, (end - 1) & 15)
}

fn push_decimal(text: &mut TextBuffer, number: u8) {
    if number >= 100 {
        text.push(b'0' + number / 100);
    }
    if number >= 10 {
        text.push(b'0' + number / 10 % 10);
    }
    text.push(b'0' + number % 10);
}

/// Writes an address as RFC 5952 requires: the first longest run of two or more zero groups is `::`.
fn push_v6(text: &mut TextBuffer, address: Ipv6Addr) {
    let groups = address.segments();
    let (start, end) = longest_zeros(&groups);
    for (index, group) in groups.into_iter().enumerate() {
        if (start..end).contains(&index) {
            if index == start {
                text.push(b':');
                text.push(b':');
            }
            continue;
        }
        if index > 0 && index != end {
            text.push(b':');
        }
        push_hex_group(text, group);
    }
}

/// Returns the range of the zero groups that are omitted; an empty range beyond the end if there are none.
fn longest_zeros(groups: &[u16; 8]) -> (usize, usize) {
    let mut longest = (9, 9);
    let mut start = 0;
    for (index, group) in groups.iter().enumerate() {
        if *group != 0 {
            start = index + 1;
        } else if index + 1 - start >= 2 && index + 1 - start > longest.1 - longest.0 {
            longest = (start, index + 1);
        }
    }
    longest
}

fn push_hex_group(text: &mut TextBuffer, group: u16) {
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
    fn shortened_addresses_are_written_with_their_prefix_length() {
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
        fn text_equals_that_of_std(groups in any::<[u16; 8]>(), zeros in any::<u8>(), v4 in any::<[u8; 4]>()) {
            let mut groups = groups;
            for (index, group) in groups.iter_mut().enumerate() {
                if zeros >> index & 1 == 1 {
                    *group = 0;
                }
            }
            let v6 = Ipv6Addr::from(groups);
            // The standard library writes these two kinds with dots, which keys do not.
            prop_assume!(v6.to_ipv4_mapped().is_none() && v6.to_ipv4().is_none());
            prop_assert_eq!(text(v6.into(), 32, 128), v6.to_string());
            prop_assert_eq!(text(v4.into(), 32, 128), Ipv4Addr::from(v4).to_string());
            let (bytes, length) = v4_packed_text(v4.into());
            let text = String::from_utf8(bytes.to_le_bytes()[..length].to_vec()).unwrap();
            prop_assert_eq!(text, Ipv4Addr::from(v4).to_string());
            prop_assert_eq!(bytes >> (8 * length), 0);
        }
    }
}
