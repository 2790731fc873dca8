//! Descriptors: of which domain they are, and whether their entries are exactly those that a rule names.

use std::collections::{BTreeSet, HashMap};

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use crate::compiled::identity::Identities;
use crate::compiled::matching::bits::RuleSet;
use crate::model::Rule;
use crate::request::{Descriptor, REMOTE_ADDRESS};

/// The rules of each domain.
pub(crate) type Domains = HashMap<Box<str>, RuleSet, FixedState>;

/// The rules that ask for exactly some entries, by the names of these.
#[derive(Debug, Default)]
pub(crate) struct EntrySets {
    /// An entry may go by another name than what it stands for: an identity
    /// that comes from a header is known by either name.
    aliases: HashMap<Box<str>, Box<str>, FixedState>,
    rules: HashMap<Box<[u8]>, RuleSet, FixedState>,
    /// For each rule what it asks for, to be told.
    wanted: HashMap<u32, Box<str>, FixedState>,
}

/// Names, sorted and separated by what no text has in it.
type Names = SmallVec<[u8; 128]>;

const SEPARATOR: u8 = 0xff;

/// The identity that `remote_address` stands for.
const CLIENT_IP: &str = "client_ip";

impl EntrySets {
    pub(crate) fn compile(rules: &[Rule], identities: &Identities) -> EntrySets {
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
        for (at, rule) in (0..).zip(rules).filter(|(_, rule)| rule.when.exact_entries) {
            let named: BTreeSet<&str> = named_by(rule).map(|name| sets.meant(name)).collect();
            let told = named.iter().map(|name| in_words(name)).collect::<Vec<_>>().join(", ");
            let names = joined(&named.into_iter().collect::<SmallVec<[&str; 8]>>());
            sets.rules.entry(names.as_slice().into()).or_default().insert(at);
            sets.wanted.insert(at, told.into());
        }
        sets
    }

    /// The rules that ask for exactly the entries of this descriptor. One that
    /// has an entry twice has no rule: which of the two would be meant?
    pub(crate) fn find(&self, descriptor: Option<&Descriptor<'_>>) -> Option<&RuleSet> {
        let mut names: SmallVec<[&str; 8]> = descriptor?.entries.iter().map(|(name, _)| self.meant(name)).collect();
        names.sort_unstable();
        self.rules.get(joined(&names).as_slice())
    }

    /// Why a descriptor is not what a rule asks for.
    pub(crate) fn failed(&self, rule: u32, descriptor: Option<&Descriptor<'_>>) -> String {
        let wanted = self.wanted.get(&rule).map_or("", |wanted| wanted);
        match descriptor {
            None => "it is no descriptor of a gateway".to_owned(),
            Some(descriptor) => {
                let entries: Vec<&str> =
                    descriptor.entries.iter().map(|(name, _)| in_words(self.meant(name))).collect();
                format!("its entries are {}, not exactly {wanted}", entries.join(", "))
            }
        }
    }

    fn meant<'n>(&'n self, name: &'n str) -> &'n str {
        match self.aliases.get(name) {
            Some(meant) => meant,
            // Header names have no case.
            None if name.bytes().any(|byte| byte.is_ascii_uppercase()) => {
                self.aliases.get(name.to_ascii_lowercase().as_str()).map_or(name, |meant| meant)
            }
            None => name,
        }
    }
}

/// People compare it with what the gateway sends, so the client's address goes by the gateway's name for it.
fn in_words(meant: &str) -> &str {
    if meant == CLIENT_IP { REMOTE_ADDRESS } else { meant }
}

/// Everything that a rule says of a request by name.
fn named_by(rule: &Rule) -> impl Iterator<Item = &str> {
    let when = &rule.when;
    let asked = when.headers.iter().chain(&when.identities).map(|(name, _)| name.as_str());
    let members = [
        (!when.methods.is_empty(), "method"),
        (!when.hosts.is_empty(), "host"),
        (!when.paths.is_empty(), "path"),
        (when.network.is_some(), CLIENT_IP),
    ];
    let members = members.into_iter().filter_map(|(is_asked, name)| is_asked.then_some(name));
    rule.key.iter().map(String::as_str).chain(asked).chain(members)
}

fn joined(names: &[&str]) -> Names {
    let mut joined = Names::new();
    for name in names {
        joined.extend_from_slice(name.as_bytes());
        joined.push(SEPARATOR);
    }
    joined
}
