//! For whom a proxy speaks.
//!
//! Every proxy appends the address that it saw, so a list is read from its end:
//! what stands there was written by the proxy that we see ourselves, what stands
//! before was written by whoever that one saw, and so on. As long as those who
//! wrote are trusted we go on; the first who is not is the client, and whatever
//! they wrote themselves is never looked at.

use std::net::IpAddr;

use crate::compiled::address;
use crate::compiled::address::networks::NetworkMap;
use crate::model::ForwardedBy;
use crate::request::Headers;

/// More proxies in a row than anybody has; it bounds the work for a list of any length.
const MAX_HOPS: usize = 32;

/// The client behind the peer.
pub(crate) fn client(peer: IpAddr, trusted: &NetworkMap<()>, by: ForwardedBy, headers: &dyn Headers) -> IpAddr {
    let mut believed = peer;
    if trusted.is_empty() || !trusted.contains(peer) {
        return peer;
    }
    for entry in Entries::new(by, headers).take(MAX_HOPS) {
        // Who says something that is no address is the last of whom we know anything.
        let Some(address) = address_of(entry, by) else { break };
        believed = address;
        if !trusted.contains(address) {
            break;
        }
    }
    believed
}

/// The entries of all lines as one list, from its end. Empty ones do not count.
struct Entries<'a> {
    headers: &'a dyn Headers,
    name: &'static str,
    lines_left: usize,
    line: &'a [u8],
}

impl<'a> Entries<'a> {
    fn new(by: ForwardedBy, headers: &'a dyn Headers) -> Entries<'a> {
        let name = match by {
            ForwardedBy::XForwardedFor => "x-forwarded-for",
            ForwardedBy::Forwarded => "forwarded",
        };
        Entries { headers, name, lines_left: count_lines(headers, name), line: b"" }
    }
}

impl<'a> Iterator for Entries<'a> {
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

/// How many lines there are. Finding a line may take a walk over all of them, so they are not asked for one by one.
fn count_lines(headers: &dyn Headers, name: &str) -> usize {
    let exists = |at: usize| headers.line(name, at).is_some();
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

/// What stands before the last comma outside quotes, and what stands behind it.
///
/// It is read backwards, because only the end was written by somebody trusted:
/// a quote that a client left open further to the left cannot swallow it, and a
/// comma that a client smuggled into a quoted `host=".."` cannot split it.
fn split_last(line: &[u8]) -> (&[u8], &[u8]) {
    let mut quoted = false;
    for (at, byte) in line.iter().enumerate().rev() {
        match byte {
            b'"' if !is_escaped(&line[..at]) => quoted = !quoted,
            b',' if !quoted => return (line[..at].trim_ascii_end(), line[at + 1..].trim_ascii()),
            _ => {}
        }
    }
    (b"", line.trim_ascii())
}

/// Whether what follows is escaped: behind an odd number of backslashes.
fn is_escaped(before: &[u8]) -> bool {
    before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

fn address_of(entry: &[u8], by: ForwardedBy) -> Option<IpAddr> {
    match by {
        ForwardedBy::XForwardedFor => address::parse(entry),
        ForwardedBy::Forwarded => address::parse(node(entry)?),
    }
}

/// The node of `for=node;by=..`. An element that names two is none.
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

/// The first of several pairs between semicolons, and the rest. `None` if a quote stays open.
fn split_pair(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut quoted = false;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'"' if !quoted || !is_escaped(&text[..at]) => quoted = !quoted,
            b';' if !quoted => return Some((text[..at].trim_ascii(), text[at + 1..].trim_ascii())),
            _ => {}
        }
    }
    (!quoted).then(|| (text.trim_ascii(), &b""[..]))
}

/// No address contains a backslash, so nothing needs to be unescaped.
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

    fn walk(peer: &str, by: ForwardedBy, lines: &[&str]) -> String {
        let name = if by == ForwardedBy::Forwarded { "Forwarded" } else { "X-Forwarded-For" };
        let headers: Vec<(&str, &str)> = lines.iter().map(|line| (name, *line)).collect();
        client(peer.parse().unwrap(), &trusted(), by, &headers).to_string()
    }

    #[test]
    fn a_list_is_read_from_its_end_as_far_as_it_is_trusted() {
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
            assert_eq!(walk(peer, ForwardedBy::XForwardedFor, lines), expected, "{peer} {lines:?}");
        }
    }

    #[test]
    fn elements_of_rfc_7239_are_read_alike() {
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
            // A quote that the client left open does not swallow what the proxy appended.
            ("for=\"6.6.6.6, for=192.0.2.1", "192.0.2.1"),
            ("for=\"6.6.6.6\\, for=192.0.2.1", "192.0.2.1"),
            // A comma in the client's host does not make two of what the proxy wrote.
            ("for=192.0.2.1;host=\"x, for=6.6.6.6;a=\"", "192.0.2.1"),
            ("for=192.0.2.1;host=\"x\\\", for=6.6.6.6;a=\\\"\"", "192.0.2.1"),
        ] {
            assert_eq!(walk("10.0.0.1", ForwardedBy::Forwarded, &[line]), expected, "{line}");
        }
    }

    #[test]
    fn a_list_of_any_length_is_read_from_its_end() {
        let mut lines = vec!["6.6.6.6"; 1_000];
        lines.push("192.0.2.1");
        assert_eq!(walk("10.0.0.1", ForwardedBy::XForwardedFor, &lines), "192.0.2.1");
        let endless = "10.0.0.2,".repeat(100_000);
        assert_eq!(walk("10.0.0.1", ForwardedBy::XForwardedFor, &[&endless]), "10.0.0.2");
        for count in 0..20 {
            let lines = vec![("a", "b"); count];
            assert_eq!(count_lines(&lines, "a"), count);
        }
    }
}
