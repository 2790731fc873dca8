//! What one rule asks of a request, by itself: for the conditions that are not
//! worth an index, and for telling people why a rule does not apply. And what is asked of one value.

use std::collections::HashMap;
use std::net::IpAddr;

use foldhash::fast::FixedState;

use crate::compiled::address::carried;
use crate::compiled::address::networks::{NetworkMap, meant};
use crate::compiled::identity::{Identities, IdentityId, RequestValues};
use crate::model::{Condition, Networks, TextPattern, When};

/// The conditions of a rule on values and addresses. Methods, hosts and paths are always indexed.
#[derive(Debug)]
pub(crate) struct Conditions {
    pub(crate) tests: Vec<(IdentityId, Test)>,
    pub(crate) network: Option<NetworkMap<()>>,
    /// Whether the client is to come from elsewhere.
    pub(crate) outside: bool,
}

impl Conditions {
    pub(crate) fn compile(when: &When, identities: &mut Identities) -> Conditions {
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
            for network in meant(networks) {
                map.entry(network);
            }
            map
        });
        let outside = when.network.as_ref().is_some_and(Networks::is_outside);
        Conditions { tests, network, outside }
    }

    /// Whether the client may come from where the rule says, by its address or by the one that it carries. A client of
    /// unknown address comes from no network.
    pub(crate) fn is_from(&self, client: Option<IpAddr>) -> bool {
        self.is_surely_from(client) || client.and_then(carried).is_some_and(|v4| self.is_surely_from(Some(v4.into())))
    }

    /// The same by the address as it was sent.
    fn is_surely_from(&self, client: Option<IpAddr>) -> bool {
        let Some(network) = &self.network else { return true };
        client.is_some_and(|client| network.contains(client)) != self.outside
    }

    /// Whether all conditions on values and addresses hold beyond doubt, which is what an exemption takes.
    pub(crate) fn surely_hold(&self, values: &RequestValues<'_>, route: Option<&[u8]>) -> bool {
        let tests = self.tests.iter().all(|(id, test)| values.surely_passes(*id, test, route));
        tests && (self.network.is_none() || values.client().is_some_and(|client| self.surely_come_from(client)))
    }

    /// A client that is to come from elsewhere must do so by both addresses.
    fn surely_come_from(&self, client: IpAddr) -> bool {
        let carried = carried(client).filter(|_| self.outside);
        self.is_surely_from(Some(client)) && carried.is_none_or(|v4| self.is_surely_from(Some(v4.into())))
    }

    /// Whether the test at a position holds.
    pub(crate) fn holds(&self, at: usize, values: &RequestValues<'_>, route: Option<&[u8]>) -> bool {
        let Some((id, test)) = self.tests.get(at) else { return true };
        values.passes(*id, test, route)
    }
}

/// A pattern, perhaps only for the values that come from one identity of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    pub(crate) only: Option<IdentityId>,
    pub(crate) text: TextPattern,
}

impl Pattern {
    /// Whether this value, found under this identity, is meant.
    pub(crate) fn matches(&self, of: IdentityId, value: &[u8]) -> bool {
        self.only.is_none_or(|only| only == of) && self.text.matches(value)
    }
}

/// Something for each pattern. Texts without stars are found at once, however many they are.
#[derive(Clone, Debug)]
pub(crate) struct TextMap<T> {
    exact: HashMap<Box<[u8]>, T, FixedState>,
    /// With stars, or only for one identity of a list.
    others: Vec<(Pattern, T)>,
}

impl<T: Default> TextMap<T> {
    pub(crate) fn new() -> TextMap<T> {
        TextMap { exact: HashMap::default(), others: Vec::new() }
    }

    /// What is kept for this pattern.
    pub(crate) fn entry(&mut self, pattern: Pattern) -> &mut T {
        if pattern.only.is_none() && !pattern.text.is_wildcard() {
            return self.exact.entry(pattern.text.0.into_bytes().into()).or_default();
        }
        let at = self.others.iter().position(|(known, _)| *known == pattern).unwrap_or_else(|| {
            self.others.push((pattern, T::default()));
            self.others.len() - 1
        });
        &mut self.others[at].1
    }
}

impl<T> TextMap<T> {
    /// What is kept for each pattern that means this value.
    pub(crate) fn find(&self, of: IdentityId, value: &[u8]) -> impl Iterator<Item = &T> {
        let others = self.others.iter().filter(move |(pattern, _)| pattern.matches(of, value)).map(|(_, kept)| kept);
        self.exact.get(value).into_iter().chain(others)
    }

    /// Whether any pattern means this value.
    pub(crate) fn has(&self, of: IdentityId, value: &[u8]) -> bool {
        self.find(of, value).next().is_some()
    }
}

/// What is asked of a value.
#[derive(Clone, Debug)]
pub(crate) enum Test {
    Present,
    Absent,
    OneOf(TextMap<()>),
    OneOfBut {
        /// Any, where there are none.
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

    /// Whether a value that cannot be used passes: it may be taken for one, and for none, and for no value in particular.
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
            (Test::OneOf(map), Some((of, value))) => map.has(of, value),
            (Test::OneOfBut { these, but_not }, Some((of, value))) => {
                these.as_ref().is_none_or(|these| these.has(of, value)) && !but_not.has(of, value)
            }
            _ => false,
        }
    }
}
