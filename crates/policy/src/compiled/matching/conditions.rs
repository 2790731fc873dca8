//! The conditions of one rule on values and addresses, and the test of one value. They are evaluated one by one if they
//! are not indexed, and to explain why a rule does not apply.

use std::collections::HashMap;
use std::net::IpAddr;

use foldhash::fast::FixedState;

use crate::compiled::address::embedded_v4;
use crate::compiled::address::networks::{NetworkMap, named_networks};
use crate::compiled::identity::{IdentityId, IdentityTable, RequestValues};
use crate::model::{Condition, Networks, TextPattern, When};

/// The conditions of a rule on values and addresses. Methods, hosts and paths are always indexed.
#[derive(Debug)]
pub(crate) struct Conditions {
    pub(crate) tests: Vec<(IdentityId, Test)>,
    pub(crate) network: Option<NetworkMap<()>>,
    /// Whether the client must be outside of these networks.
    pub(crate) outside: bool,
}

impl Conditions {
    pub(crate) fn compile(when: &When, identities: &mut IdentityTable) -> Conditions {
        let mut tests = Vec::new();
        for (name, condition) in &when.headers {
            let id = identities.header(name);
            tests.push((id, Test::compile(condition, |pattern| identities.pattern(id, pattern))));
        }
        for (name, condition) in &when.identities {
            let id = identities.id(name);
            tests.push((id, Test::compile(condition, |pattern| identities.pattern(id, pattern))));
        }
        let network = when.network.as_ref().map(|networks| {
            let mut map = NetworkMap::new();
            for network in named_networks(networks) {
                map.entry(network);
            }
            map
        });
        let outside = when.network.as_ref().is_some_and(Networks::is_outside);
        Conditions { tests, network, outside }
    }

    /// Whether the client's address, or the IPv4 address that it embeds, meets the condition on networks. A client of
    /// unknown address is in no network.
    pub(crate) fn is_from(&self, client: Option<IpAddr>) -> bool {
        self.accepts(client) || client.and_then(embedded_v4).is_some_and(|v4| self.accepts(Some(v4.into())))
    }

    /// The same for one address, without the one that it embeds.
    fn accepts(&self, address: Option<IpAddr>) -> bool {
        let Some(network) = &self.network else { return true };
        address.is_some_and(|address| network.contains(address)) != self.outside
    }

    /// Whether all conditions on values and addresses hold strictly, as exemptions require.
    pub(crate) fn hold_strictly(&self, values: &RequestValues<'_>, route: Option<&[u8]>) -> bool {
        let tests = self.tests.iter().all(|(id, test)| values.passes_strictly(*id, test, route));
        tests && (self.network.is_none() || values.client().is_some_and(|client| self.is_from_strictly(client)))
    }

    /// Whether the address meets the condition as it was sent. A client that must be outside of the networks must be so
    /// by the embedded address, too.
    fn is_from_strictly(&self, client: IpAddr) -> bool {
        let embedded = embedded_v4(client).filter(|_| self.outside);
        self.accepts(Some(client)) && embedded.is_none_or(|v4| self.accepts(Some(v4.into())))
    }

    /// Whether the test at a position holds.
    pub(crate) fn holds(&self, index: usize, values: &RequestValues<'_>, route: Option<&[u8]>) -> bool {
        let Some((id, test)) = self.tests.get(index) else { return true };
        values.passes(*id, test, route)
    }
}

/// A pattern of values, optionally only for those of one identity of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    pub(crate) only: Option<IdentityId>,
    pub(crate) text: TextPattern,
}

impl Pattern {
    /// Whether the pattern matches this value, which was found under this identity.
    pub(crate) fn matches(&self, of: IdentityId, value: &[u8]) -> bool {
        self.only.is_none_or(|only| only == of) && self.text.matches(value)
    }
}

/// A map by patterns. Texts without wildcards are found by one hash lookup, whatever their number.
#[derive(Clone, Debug)]
pub(crate) struct TextMap<T> {
    exact: HashMap<Box<[u8]>, T, FixedState>,
    /// Patterns with wildcards, or only for one identity of a list.
    others: Vec<(Pattern, T)>,
}

impl<T: Default> TextMap<T> {
    pub(crate) fn new() -> TextMap<T> {
        TextMap { exact: HashMap::default(), others: Vec::new() }
    }

    /// Returns the value of this pattern, and inserts the default if it is missing.
    pub(crate) fn entry(&mut self, pattern: Pattern) -> &mut T {
        if pattern.only.is_none() && !pattern.text.is_wildcard() {
            return self.exact.entry(pattern.text.0.into_bytes().into()).or_default();
        }
        let index = self.others.iter().position(|(known, _)| *known == pattern).unwrap_or_else(|| {
            self.others.push((pattern, T::default()));
            self.others.len() - 1
        });
        &mut self.others[index].1
    }
}

impl<T> TextMap<T> {
    /// Returns the value of each pattern that matches this text.
    pub(crate) fn find(&self, of: IdentityId, value: &[u8]) -> impl Iterator<Item = &T> {
        let others = self.others.iter().filter(move |(pattern, _)| pattern.matches(of, value)).map(|(_, value)| value);
        self.exact.get(value).into_iter().chain(others)
    }

    /// Whether any pattern matches this text.
    pub(crate) fn matches(&self, of: IdentityId, value: &[u8]) -> bool {
        self.find(of, value).next().is_some()
    }
}

/// A test of one value.
#[derive(Clone, Debug)]
pub(crate) enum Test {
    Present,
    Absent,
    OneOf(TextMap<()>),
    OneOfBut {
        /// Any value if `None`.
        these: Option<TextMap<()>>,
        but_not: TextMap<()>,
    },
}

impl Test {
    pub(crate) fn compile(condition: &Condition, pattern: impl Fn(&TextPattern) -> Pattern) -> Test {
        let map_of = |patterns: &[TextPattern]| {
            let mut map = TextMap::new();
            for text in patterns {
                map.entry(pattern(text));
            }
            map
        };
        match condition {
            Condition::Present => Test::Present,
            Condition::Absent => Test::Absent,
            Condition::OneOf(patterns) => Test::OneOf(map_of(patterns)),
            Condition::OneOfBut { these, but_not } => {
                Test::OneOfBut { these: (!these.is_empty()).then(|| map_of(these)), but_not: map_of(but_not) }
            }
        }
    }

    /// Whether an unusable value passes: it counts both as present and as absent, but equals no particular value.
    pub(crate) fn holds_for_unusable(&self) -> bool {
        match self {
            Test::Present | Test::Absent => true,
            Test::OneOf(_) => false,
            Test::OneOfBut { these, .. } => these.is_none(),
        }
    }

    /// Whether a value passes.
    pub(crate) fn holds(&self, found: Option<(IdentityId, &[u8])>) -> bool {
        match (self, found) {
            (Test::Present, Some(_)) | (Test::Absent, None) => true,
            (Test::OneOf(map), Some((of, value))) => map.matches(of, value),
            (Test::OneOfBut { these, but_not }, Some((of, value))) => {
                these.as_ref().is_none_or(|these| these.matches(of, value)) && !but_not.matches(of, value)
            }
            _ => false,
        }
    }
}
