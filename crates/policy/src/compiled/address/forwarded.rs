//! Finds the client's address in the forwarding headers of trusted proxies.
//!
//! Every proxy appends the address of its peer, so the list is read from its end: the last entry was written by our own
//! peer, the entry before it by the peer of that proxy, and so on. Reading continues as long as the writer of an entry
//! is trusted. The first address that is not trusted is the client, and the entries that the client wrote are never
//! read.

use std::net::IpAddr;

use crate::compiled::address;
use crate::compiled::address::networks::NetworkMap;
use crate::model::ForwardedBy;
use crate::request::Headers;

/// The largest number of entries that are read. It exceeds any real chain of proxies, and bounds the work for a list of
/// any length.
const MAX_HOPS: usize = 32;

/// Returns the address of the client behind the peer.
pub(crate) fn client(peer: IpAddr, trusted: &NetworkMap<()>, by: ForwardedBy, headers: &dyn Headers) -> IpAddr {
    let mut client = peer;
    if trusted.is_empty() || !trusted.contains(peer) {
        return peer;
    }
    for entry in ForwardedEntries::new(by, headers).take(MAX_HOPS) {
        // After an entry that is not an address, nothing is known: its writer is the client.
        let Some(address) = address_of(entry, by) else { break };
        client = address;
        if !trusted.contains(address) {
            break;
        }
    }
    client
}

/// An iterator over the entries of all lines as one list, from its end. It skips empty entries.
struct ForwardedEntries<'a> {
    headers: &'a dyn Headers,
    name: &'static str,
    lines_left: usize,
    line: &'a [u8],
}

impl<'a> ForwardedEntries<'a> {
    fn new(by: ForwardedBy, headers: &'a dyn Headers) -> ForwardedEntries<'a> {
        let name = match by {
            ForwardedBy::XForwardedFor => "x-forwarded-for",
            ForwardedBy::Forwarded => "forwarded",
        };
        ForwardedEntries { headers, name, lines_left: count_lines(headers, name), line: b"" }
    }
}

impl<'a> Iterator for ForwardedEntries<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            while self.line.is_empty() {
                self.lines_left = self.lines_left.checked_sub(1)?;
                self.line = self.headers.line(self.name, self.lines_left).unwrap_or_default().trim_ascii();
            }
            let (before, entry) = split_last(self.line);
            self.line = before;
            if !entry.is_empty() {
                return Some(entry);
            }
        }
    }
}

/// Returns the number of lines, by a binary search: finding one line may take a scan of all of them.
fn count_lines(headers: &dyn Headers, name: &str) -> usize {
    let exists = |index: usize| headers.line(name, index).is_some();
    let mut beyond = 1;
    while exists(beyond - 1) {
        beyond *= 2;
    }
    let (mut least, mut most) = (beyond / 2, beyond - 1);
    while least < most {
        let middle = least.midpoint(most);
        if exists(middle) {
            least = middle + 1;
        } else {
            most = middle;
        }
    }
    least
}

/// Splits a line at the last comma outside quotes.
///
/// The line is read backwards, because only its end was written by a trusted proxy: an unclosed quote in the client's
/// part cannot extend over the proxy's entry, and a comma that a client puts into a quoted `host=".."` cannot split it.
fn split_last(line: &[u8]) -> (&[u8], &[u8]) {
    let mut quoted = false;
    for (index, byte) in line.iter().enumerate().rev() {
        match byte {
            b'"' if !is_escaped(&line[..index]) => quoted = !quoted,
            b',' if !quoted => return (line[..index].trim_ascii_end(), line[index + 1..].trim_ascii()),
            _ => {}
        }
    }
    (b"", line.trim_ascii())
}

/// Whether the following byte is escaped: an odd number of backslashes precedes it.
fn is_escaped(before: &[u8]) -> bool {
    before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

fn address_of(entry: &[u8], by: ForwardedBy) -> Option<IpAddr> {
    match by {
        ForwardedBy::XForwardedFor => address::parse(entry),
        ForwardedBy::Forwarded => address::parse(node(entry)?),
    }
}

/// Returns the node of `for=node;by=..`. `None` for an element with two nodes.
fn node(element: &[u8]) -> Option<&[u8]> {
    let mut node = None;
    let mut rest = element;
    while !rest.is_empty() {
        let (pair, after) = split_pair(rest)?;
        rest = after;
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        if pair[..equals].trim_ascii().eq_ignore_ascii_case(b"for")
            && node.replace(unquoted(&pair[equals + 1..])?).is_some()
        {
            return None;
        }
    }
    node
}

/// Splits off the first pair before a semicolon. `None` if a quote is not closed.
fn split_pair(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut quoted = false;
    for (index, byte) in text.iter().enumerate() {
        match byte {
            b'"' if !quoted || !is_escaped(&text[..index]) => quoted = !quoted,
            b';' if !quoted => return Some((text[..index].trim_ascii(), text[index + 1..].trim_ascii())),
            _ => {}
        }
    }
    (!quoted).then(|| (text.trim_ascii(), &b""[..]))
}

/// Removes the quotes around a value. No address contains a backslash, so unescaping is not needed.
fn unquoted(value: &[u8]) -> Option<&[u8]> {
    let value = value.trim_ascii();
    match value.strip_prefix(b"\"") {
        Some(rest) => rest.strip_suffix(b"\""),
        None => Some(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trusted() -> NetworkMap<()> {
        let mut trusted = NetworkMap::new();
        for network in ["10.0.0.0/8", "fd00::/8"] {
            trusted.entry(network.parse().unwrap());
        }
        trusted
    }

    fn client_of(peer: &str, by: ForwardedBy, lines: &[&str]) -> String {
        let name = if by == ForwardedBy::Forwarded { "Forwarded" } else { "X-Forwarded-For" };
        let headers: Vec<(&str, &str)> = lines.iter().map(|line| (name, *line)).collect();
        client(peer.parse().unwrap(), &trusted(), by, &headers).to_string()
    }

    #[test]
    fn list_is_read_from_its_end_while_proxies_are_trusted() {
        for (peer, lines, expected) in [
            ("203.0.113.9", &["192.0.2.1"][..], "203.0.113.9"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["192.0.2.1"], "192.0.2.1"),
            ("10.0.0.1", &["6.6.6.6, 192.0.2.1"], "192.0.2.1"),
            ("10.0.0.1", &["6.6.6.6, 192.0.2.1, 10.0.0.2"], "192.0.2.1"),
            ("10.0.0.1", &["6.6.6.6", "192.0.2.1", "10.0.0.2"], "192.0.2.1"),
            ("10.0.0.1", &["6.6.6.6, 192.0.2.1", "10.0.0.2"], "192.0.2.1"),
            ("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
            ("10.0.0.1", &["192.0.2.1:1234, [fd00::1]:80"], "192.0.2.1"),
            ("10.0.0.1", &["::ffff:192.0.2.1"], "192.0.2.1"),
            ("10.0.0.1", &["::ffff:10.0.0.2"], "10.0.0.2"),
            ("10.0.0.1", &["192.0.2.1, ,"], "192.0.2.1"),
            ("10.0.0.1", &["", "192.0.2.1", " "], "192.0.2.1"),
            ("10.0.0.1", &["garbage"], "10.0.0.1"),
            ("10.0.0.1", &["192.0.2.1, garbage"], "10.0.0.1"),
            ("10.0.0.1", &["192.0.2.1, garbage, 10.0.0.2"], "10.0.0.2"),
            ("10.0.0.1", &["garbage, 192.0.2.1"], "192.0.2.1"),
            ("10.0.0.1", &["unknown"], "10.0.0.1"),
        ] {
            assert_eq!(client_of(peer, ForwardedBy::XForwardedFor, lines), expected, "{peer} {lines:?}");
        }
    }

    #[test]
    fn forwarded_elements_are_read_like_x_forwarded_for() {
        for (line, expected) in [
            ("for=192.0.2.1", "192.0.2.1"),
            ("FOR=\"192.0.2.1\"", "192.0.2.1"),
            ("proto=http;for=192.0.2.1;by=10.0.0.1", "192.0.2.1"),
            ("for=\"[2001:db8::1]:4711\"", "2001:db8::1"),
            ("for=\"[2001:db8::1]\" ; proto=https", "2001:db8::1"),
            ("for=6.6.6.6, for=192.0.2.1, for=10.0.0.2", "192.0.2.1"),
            ("for=192.0.2.1;ext=\"a,b;c\\\"\"", "192.0.2.1"),
            ("for=_hidden", "10.0.0.1"),
            ("for=unknown, for=10.0.0.2", "10.0.0.2"),
            ("for=192.0.2.1;for=192.0.2.2", "10.0.0.1"),
            ("proto=http", "10.0.0.1"),
            ("192.0.2.1", "10.0.0.1"),
            ("for=\"192.0.2.1", "10.0.0.1"),
            // An unclosed quote of the client does not extend over the proxy's entry.
            ("for=\"6.6.6.6, for=192.0.2.1", "192.0.2.1"),
            ("for=\"6.6.6.6\\, for=192.0.2.1", "192.0.2.1"),
            // A comma in the client's host does not split the proxy's entry.
            ("for=192.0.2.1;host=\"x, for=6.6.6.6;a=\"", "192.0.2.1"),
            ("for=192.0.2.1;host=\"x\\\", for=6.6.6.6;a=\\\"\"", "192.0.2.1"),
        ] {
            assert_eq!(client_of("10.0.0.1", ForwardedBy::Forwarded, &[line]), expected, "{line}");
        }
    }

    #[test]
    fn long_lists_are_read_from_their_end() {
        let mut lines = vec!["6.6.6.6"; 1_000];
        lines.push("192.0.2.1");
        assert_eq!(client_of("10.0.0.1", ForwardedBy::XForwardedFor, &lines), "192.0.2.1");
        let endless = "10.0.0.2,".repeat(100_000);
        assert_eq!(client_of("10.0.0.1", ForwardedBy::XForwardedFor, &[&endless]), "10.0.0.2");
        for count in 0..20 {
            let lines = vec![("a", "b"); count];
            assert_eq!(count_lines(&lines, "a"), count);
        }
    }
}
