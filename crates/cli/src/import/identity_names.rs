//! Maps entries of descriptors to identities of a policy.

use tollgate::policy::model::{BUILT_IN_IDENTITIES, TIER};

/// The longest name of an identity.
const MAX_NAME: usize = 64;

/// The identity for an entry, by the source of its value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EntryIdentity {
    /// A given identity with the name of the entry.
    Given(String),
    /// An identity from a header: the name of the entry is not valid for an
    /// identity, or is a built-in identity, whose value would be changed (a path
    /// is normalised, a method converted to upper case). Every entry is also a
    /// header, whose value is used unchanged.
    Header { name: String, entry: String },
}

impl EntryIdentity {
    pub(super) fn name(&self) -> &str {
        match self {
            EntryIdentity::Given(name) | EntryIdentity::Header { name, .. } => name,
        }
    }
}

/// Returns the identity for an entry; `None` if no identity can have its value.
pub(super) fn identity_of(entry: &str) -> Option<EntryIdentity> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let is_reserved = BUILT_IN_IDENTITIES.contains(&entry) || entry == TIER || entry.starts_with(PREFIX);
    let is_name = entry.starts_with(|c: char| c.is_ascii_lowercase()) && entry.chars().all(is_plain);
    if is_name && !is_reserved && entry.len() <= MAX_NAME {
        return Some(EntryIdentity::Given(entry.to_owned()));
    }
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let is_header = !entry.is_empty() && entry.chars().all(is_token);
    // Header names are case-insensitive. Keys that differ in case only were rejected by the reader.
    let entry = entry.to_ascii_lowercase();
    let name = PREFIX.to_owned() + &entry.chars().map(escaped).collect::<String>();
    (is_header && name.len() <= MAX_NAME).then_some(EntryIdentity::Header { name, entry })
}

/// The prefix of identities from headers. A given identity never begins with it.
const PREFIX: &str = "entry_";

/// Escapes a character by its code point, so that different entries have different names.
fn escaped(c: char) -> String {
    match c {
        'a'..='z' | '0'..='9' | '_' => c.to_string(),
        '-' => "__".to_owned(),
        other => format!("_x{:02x}_", u32::from(other)),
    }
}
