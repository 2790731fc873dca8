//! Names for rules, which have to be unique, short and plain.

use std::collections::HashSet;

/// The longest name of a rule.
const MAX_NAME: usize = 64;
/// Room for the number of a name that others have as well.
const MAX_WITHOUT_NUMBER: usize = MAX_NAME - 7;

#[derive(Debug, Default)]
pub(super) struct RuleNames(HashSet<String>);

impl RuleNames {
    /// A name like this text that no other rule has.
    pub(super) fn take(&mut self, like: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
        let name: String = like.trim_start_matches(|c: char| !c.is_ascii_alphanumeric()).chars().map(plain).collect();
        let name = if name.is_empty() { "rule" } else { &name[..name.len().min(MAX_WITHOUT_NUMBER)] };
        let numbered = std::iter::once(name.to_owned()).chain((2..).map(|number| format!("{name}-{number}")));
        let free = numbered.into_iter().find(|name| !self.0.contains(name)).unwrap_or_default();
        self.0.insert(free.clone());
        free
    }
}
