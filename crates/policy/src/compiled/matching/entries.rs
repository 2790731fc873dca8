//! The indexes of conditions on descriptors: their domain, and whether their entries are exactly those of a rule.

use std::collections::{BTreeSet, HashMap};

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use crate::compiled::identity::IdentityTable;
use crate::compiled::matching::bits::RuleSet;
use crate::model::Rule;
use crate::request::{Descriptor, REMOTE_ADDRESS};

/// The rules of each domain.
pub(crate) type Domains = HashMap<Box<str>, RuleSet, FixedState>;

/// The rules that match descriptors with exactly certain entries, by the names of the entries.
#[derive(Debug, Default)]
pub(crate) struct EntrySets {
    /// The canonical names of entries that have several: an identity that is read from a header can be named by the
    /// identity or by the header.
    aliases: HashMap<Box<str>, Box<str>, FixedState>,
    rules: HashMap<Box<[u8]>, RuleSet, FixedState>,
    /// The entries that each rule expects, as text for explanations.
    expected: HashMap<u32, Box<str>, FixedState>,
}

/// Sorted names, each followed by a byte that does not occur in UTF-8.
type JoinedNames = SmallVec<[u8; 128]>;

const SEPARATOR: u8 = 0xff;

/// The identity that the entry `remote_address` sets.
const CLIENT_IP: &str = "client_ip";

impl EntrySets {
    pub(crate) fn compile(rules: &[Rule], identities: &IdentityTable) -> EntrySets {
        let mut sets = EntrySets::default();
        if rules.iter().all(|rule| !rule.when.exact_entries) {
            return sets;
        }
        sets.aliases.insert(REMOTE_ADDRESS.into(), CLIENT_IP.into());
        for (identity, header) in identities.with_headers() {
            let first = sets.aliases.entry(header.into()).or_insert_with(|| identity.into()).clone();
            if *first != *identity {
                sets.aliases.insert(identity.into(), first);
            }
        }
        for (index, rule) in (0..).zip(rules).filter(|(_, rule)| rule.when.exact_entries) {
            let named: BTreeSet<&str> = named_by(rule).map(|name| sets.canonical_name(name)).collect();
            let expected = named.iter().map(|name| display_name(name)).collect::<Vec<_>>().join(", ");
            let names = joined(&named.into_iter().collect::<SmallVec<[&str; 8]>>());
            sets.rules.entry(names.as_slice().into()).or_default().insert(index);
            sets.expected.insert(index, expected.into());
        }
        sets
    }

    /// Returns the rules that match exactly the entries of this descriptor. A descriptor with two entries of one name
    /// matches no rule, because it is ambiguous.
    pub(crate) fn find(&self, descriptor: Option<&Descriptor<'_>>) -> Option<&RuleSet> {
        let mut names: SmallVec<[&str; 8]> =
            descriptor?.entries.iter().map(|(name, _)| self.canonical_name(name)).collect();
        names.sort_unstable();
        self.rules.get(joined(&names).as_slice())
    }

    /// Formats why a descriptor does not match a rule.
    pub(crate) fn mismatch(&self, rule: u32, descriptor: Option<&Descriptor<'_>>) -> String {
        let expected = self.expected.get(&rule).map_or("", |expected| expected);
        match descriptor {
            None => "it is not a descriptor of a gateway".to_owned(),
            Some(descriptor) => {
                let entries: Vec<&str> =
                    descriptor.entries.iter().map(|(name, _)| display_name(self.canonical_name(name))).collect();
                format!("its entries are {}, not exactly {expected}", entries.join(", "))
            }
        }
    }

    fn canonical_name<'n>(&'n self, name: &'n str) -> &'n str {
        match self.aliases.get(name) {
            Some(canonical) => canonical,
            // Header names are case-insensitive.
            None if name.bytes().any(|byte| byte.is_ascii_uppercase()) => {
                self.aliases.get(name.to_ascii_lowercase().as_str()).map_or(name, |canonical| canonical)
            }
            None => name,
        }
    }
}

/// Returns the name of an entry for explanations. The client's address has the gateway's name for it, because operators
/// compare it with the entries that the gateway sends.
fn display_name(canonical: &str) -> &str {
    if canonical == CLIENT_IP { REMOTE_ADDRESS } else { canonical }
}

/// Returns the names of all request properties that a rule uses.
fn named_by(rule: &Rule) -> impl Iterator<Item = &str> {
    let when = &rule.when;
    let conditions = when.headers.iter().chain(&when.identities).map(|(name, _)| name.as_str());
    let members = [
        (!when.methods.is_empty(), "method"),
        (!when.hosts.is_empty(), "host"),
        (!when.paths.is_empty(), "path"),
        (when.network.is_some(), CLIENT_IP),
    ];
    let members = members.into_iter().filter_map(|(is_used, name)| is_used.then_some(name));
    rule.key.iter().map(String::as_str).chain(conditions).chain(members)
}

fn joined(names: &[&str]) -> JoinedNames {
    let mut joined = JoinedNames::new();
    for name in names {
        joined.extend_from_slice(name.as_bytes());
        joined.push(SEPARATOR);
    }
    joined
}
