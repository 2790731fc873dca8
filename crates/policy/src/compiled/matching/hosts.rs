//! The index of conditions on the host, and the normalisation of hosts.

use std::borrow::Cow;
use std::collections::HashMap;

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use crate::compiled::matching::bits::RuleSet;

/// The host patterns of all rules.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    exact: HashMap<Box<[u8]>, RuleSet, FixedState>,
    /// Patterns with a wildcard, by the text that follows `*.`; the empty text for `*` alone.
    wildcards: HashMap<Box<[u8]>, RuleSet, FixedState>,
    /// The largest number of labels in a wildcard's suffix. It bounds the work for a host of thousands of labels.
    labels_max: usize,
}

impl Hosts {
    /// Adds a rule's pattern.
    pub(crate) fn insert(&mut self, pattern: &str, rule: u32) {
        let (suffix, is_wildcard) = match pattern.strip_prefix('*') {
            Some(rest) => (rest.strip_prefix('.').unwrap_or(rest), true),
            None => (pattern, false),
        };
        let suffix: Box<[u8]> = normalise(suffix).map_or_else(Box::default, |host| (&*host).into());
        let map = if is_wildcard { &mut self.wildcards } else { &mut self.exact };
        if is_wildcard {
            self.labels_max = self.labels_max.max(suffix.split(|byte| *byte == b'.').count());
        }
        map.entry(suffix).or_default().insert(rule);
    }

    /// Returns the rules of each pattern that a host matches.
    pub(crate) fn find(&self, host: &[u8]) -> SmallVec<[&RuleSet; 4]> {
        let mut found: SmallVec<[&RuleSet; 4]> = self.exact.get(host).into_iter().collect();
        if self.wildcards.is_empty() {
            return found;
        }
        found.extend(self.wildcards.get(&b""[..]));
        let dots = host.iter().enumerate().rev().filter(|(_, byte)| **byte == b'.').map(|(index, _)| index);
        found.extend(dots.take(self.labels_max).filter_map(|index| self.wildcards.get(&host[index + 1..])));
        found
    }
}

/// Returns a host in lower case, without its port and without the final dot of a fully qualified name. `None` if
/// nothing is left.
pub(crate) fn normalise(host: &str) -> Option<Cow<'_, [u8]>> {
    let host = without_port(host.trim_ascii().as_bytes());
    let host = host.strip_suffix(b".").unwrap_or(host);
    if host.is_empty() {
        return None;
    }
    if host.iter().any(u8::is_ascii_uppercase) {
        return Some(Cow::Owned(host.to_ascii_lowercase()));
    }
    Some(Cow::Borrowed(host))
}

fn without_port(host: &[u8]) -> &[u8] {
    if host.first() == Some(&b'[') {
        let end = host.iter().position(|byte| *byte == b']');
        return end.map_or(host, |end| &host[..=end]);
    }
    match host.iter().position(|byte| *byte == b':') {
        // Several colons without brackets are a bare IPv6 address.
        Some(index) if !host[index + 1..].contains(&b':') => &host[..index],
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcard_matches_all_subdomains_and_not_the_domain_itself() {
        let mut hosts = Hosts::default();
        for (rule, pattern) in (0..).zip(["example.com", "*.example.com", "*.com", "*", "*.Other.org:80"]) {
            hosts.insert(pattern, rule);
        }
        for (host, expected) in [
            ("example.com", &[0, 2, 3][..]),
            ("api.example.com", &[1, 2, 3]),
            ("a.b.example.com", &[1, 2, 3]),
            ("badexample.com", &[2, 3]),
            ("com", &[3]),
            ("x.other.org", &[3, 4]),
            ("a.example.com.evil.net", &[3]),
        ] {
            let found = hosts.find(host.as_bytes());
            let rules: Vec<u32> = (0..5).filter(|rule| found.iter().any(|set| set.contains(*rule))).collect();
            assert_eq!(rules, expected, "{host}");
        }
    }

    #[test]
    fn normalised_host_has_no_port_upper_case_or_final_dot() {
        for (host, expected) in [
            ("example.com", Some("example.com")),
            ("Example.COM:8080", Some("example.com")),
            ("example.com.", Some("example.com")),
            ("example.com.:80", Some("example.com")),
            ("[::1]:80", Some("[::1]")),
            ("[::1", Some("[::1")),
            ("::1", Some("::1")),
            (" ", None),
            (":80", None),
            (".", None),
        ] {
            assert_eq!(normalise(host).as_deref(), expected.map(str::as_bytes), "{host}");
        }
    }
}
