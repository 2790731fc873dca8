//! Unique names for imported rules.

use std::collections::HashSet;

/// The longest name of a rule.
const MAX_NAME: usize = 64;
/// The longest name before the number that makes it unique.
const MAX_WITHOUT_NUMBER: usize = MAX_NAME - 7;

#[derive(Debug, Default)]
pub(super) struct RuleNames(HashSet<String>);

impl RuleNames {
    /// Returns an unused name derived from a text, and marks it as used.
    pub(super) fn take(&mut self, text: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
        let name: String = text.trim_start_matches(|c: char| !c.is_ascii_alphanumeric()).chars().map(plain).collect();
        let name = if name.is_empty() { "rule" } else { &name[..name.len().min(MAX_WITHOUT_NUMBER)] };
        let numbered = std::iter::once(name.to_owned()).chain((2..).map(|number| format!("{name}-{number}")));
        let unused = numbered.into_iter().find(|name| !self.0.contains(name)).unwrap_or_default();
        self.0.insert(unused.clone());
        unused
    }
}
