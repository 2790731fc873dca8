//! A model of a configuration and of how it matches entries.

use std::fmt::Write;

/// No limit.
pub(crate) const UNLIMITED: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) key: &'static str,
    /// The value; empty matches any value.
    pub(crate) value: &'static str,
    /// Requests a day (0 refuses all), or [`UNLIMITED`].
    pub(crate) limit: Option<u32>,
    pub(crate) below: Vec<Tree>,
}

/// The configuration file.
pub(crate) fn configuration(trees: &[Tree]) -> String {
    let mut text = "domain: d\ndescriptors:\n".to_owned();
    push(&mut text, trees, 1);
    text
}

fn push(text: &mut String, trees: &[Tree], depth: usize) {
    let indent = "  ".repeat(depth);
    for tree in trees {
        writeln!(text, "{indent}- key: {}", tree.key).unwrap();
        if !tree.value.is_empty() {
            writeln!(text, "{indent}  value: \"{}\"", tree.value).unwrap();
        }
        match tree.limit {
            Some(UNLIMITED) => writeln!(text, "{indent}  rate_limit: {{ unlimited: true }}").unwrap(),
            Some(limit) => {
                writeln!(text, "{indent}  rate_limit: {{ unit: day, requests_per_unit: {limit} }}").unwrap();
            }
            None => {}
        }
        if !tree.below.is_empty() {
            writeln!(text, "{indent}  descriptors:").unwrap();
            push(text, &tree.below, depth + 1);
        }
    }
}

/// The limit that applies to these entries.
pub(crate) fn limit_of(trees: &[Tree], entries: &[(&str, &str)]) -> Option<u32> {
    let ((key, value), rest) = entries.split_first()?;
    let of_key = || trees.iter().filter(|tree| tree.key == *key);
    let exact = of_key().find(|tree| tree.value == *value);
    let wildcard = || of_key().find(|tree| tree.value.strip_suffix('*').is_some_and(|start| value.starts_with(start)));
    let next = exact.or_else(wildcard).or_else(|| of_key().find(|tree| tree.value.is_empty()))?;
    if rest.is_empty() { next.limit } else { limit_of(&next.below, rest) }
}
