//! Hosts made comparable, the host patterns of all rules, and which of them a host matches.

use std::borrow::Cow;
use std::collections::HashMap;

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use crate::compiled::matching::bits::RuleSet;

/// All patterns.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    exact: HashMap<Box<[u8]>, RuleSet, FixedState>,
    /// By what follows `*.`; the empty text for `*` alone.
    below: HashMap<Box<[u8]>, RuleSet, FixedState>,
    /// No suffix has more labels, so a host of thousands of labels costs no more than others.
    labels_max: usize,
}

impl Hosts {
    /// Adds a rule's pattern.
    pub(crate) fn insert(&mut self, pattern: &str, rule: u32) {
        let (suffix, is_below) = match pattern.strip_prefix('*') {
            Some(rest) => (rest.strip_prefix('.').unwrap_or(rest), true),
            None => (pattern, false),
        };
        let suffix: Box<[u8]> = normalise(suffix).map_or_else(Box::default, |host| (&*host).into());
        let map = if is_below { &mut self.below } else { &mut self.exact };
        if is_below {
            self.labels_max = self.labels_max.max(suffix.split(|byte| *byte == b'.').count());
        }
        map.entry(suffix).or_default().insert(rule);
    }

    /// The rules of each pattern that a host matches.
    pub(crate) fn find(&self, host: &[u8]) -> SmallVec<[&RuleSet; 4]> {
        let mut found: SmallVec<[&RuleSet; 4]> = self.exact.get(host).into_iter().collect();
        if self.below.is_empty() {
            return found;
        }
        found.extend(self.below.get(&b""[..]));
        let dots = host.iter().enumerate().rev().filter(|(_, byte)| **byte == b'.').map(|(at, _)| at);
        found.extend(dots.take(self.labels_max).filter_map(|at| self.below.get(&host[at + 1..])));
        found
    }
}

/// A host without its port, in lower case, without the dot that ends a full name. `None` if there is none.
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
        // Several colons and no brackets are an IPv6 address that was written bare.
        Some(at) if !host[at + 1..].contains(&b':') => &host[..at],
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_for_all_below() {
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
    fn ports_case_and_a_last_dot_do_not_count() {
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
