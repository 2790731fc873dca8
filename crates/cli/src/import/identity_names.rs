//! Under which identity of a policy an entry is known.

use tollgate::policy::model::{BUILT_IN_IDENTITIES, TIER};

/// The longest name of an identity.
const MAX_NAME: usize = 64;

/// How an identity gets its value from an entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Identity {
    /// It has the entry's name.
    Given(String),
    /// The entry's name is none for an identity, or it means something else in
    /// a policy, where a path is normalised and a method written in capitals.
    /// Every entry is a header as well, and that is taken as it is.
    Header { name: String, entry: String },
}

impl Identity {
    pub(super) fn name(&self) -> &str {
        match self {
            Identity::Given(name) | Identity::Header { name, .. } => name,
        }
    }
}

/// The identity for an entry; `None` if there can be none.
pub(super) fn identity_of(entry: &str) -> Option<Identity> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let is_reserved = BUILT_IN_IDENTITIES.contains(&entry) || entry == TIER || entry.starts_with(PREFIX);
    let is_name = entry.starts_with(|c: char| c.is_ascii_lowercase()) && entry.chars().all(is_plain);
    if is_name && !is_reserved && entry.len() <= MAX_NAME {
        return Some(Identity::Given(entry.to_owned()));
    }
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let is_header = !entry.is_empty() && entry.chars().all(is_token);
    // Header names have no case. Keys that differ by it only were refused when they were read.
    let entry = entry.to_ascii_lowercase();
    let name = PREFIX.to_owned() + &entry.chars().map(readable).collect::<String>();
    (is_header && name.len() <= MAX_NAME).then_some(Identity::Header { name, entry })
}

/// No entry that is its own identity begins so.
const PREFIX: &str = "entry_";

/// Everything else than letters and digits by its number, so that no two entries share a name.
fn readable(c: char) -> String {
    match c {
        'a'..='z' | '0'..='9' | '_' => c.to_string(),
        '-' => "__".to_owned(),
        other => format!("_x{:02x}_", u32::from(other)),
    }
}
