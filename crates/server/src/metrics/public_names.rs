use std::collections::HashSet;

use tollgate::policy::CheckedPolicy;

use super::exposition::escaped;
use crate::rule_metrics::{NO_RULE, OTHER_ENDPOINTS};
use crate::throttle::THROTTLE_SCOPE;

/// The names that public metrics may have: published rules and their paths.
///
/// Rules of former policies are omitted too: whether they were published is unknown. The admin listener's metrics have
/// all names.
pub(crate) struct PublicNames {
    rules: HashSet<String>,
    endpoints: HashSet<String>,
}

/// Label values that are not from a policy: no rule, and caller-supplied limits.
const BUILT_IN_RULES: [&str; 2] = [NO_RULE, THROTTLE_SCOPE];

impl PublicNames {
    pub(crate) fn of(policy: &CheckedPolicy) -> PublicNames {
        let published = || policy.rules.iter().filter(|rule| rule.publish);
        let names = published().map(|rule| rule.name.as_str()).chain(BUILT_IN_RULES);
        let paths = published().flat_map(|rule| rule.when.paths.iter().map(String::as_str)).chain([OTHER_ENDPOINTS]);
        PublicNames {
            rules: names.map(|name| escaped(name).into_owned()).collect(),
            endpoints: paths.map(|path| escaped(path).into_owned()).collect(),
        }
    }

    /// Returns the lines of a metrics text without other names.
    pub(crate) fn visible_part(&self, text: &str) -> String {
        let mut visible = String::with_capacity(text.len());
        for line in text.split_inclusive('\n').filter(|line| self.is_visible(line)) {
            visible.push_str(line);
        }
        visible
    }

    fn is_visible(&self, line: &str) -> bool {
        let is_known = |name, known: &HashSet<String>| label(line, name).is_none_or(|value| known.contains(value));
        line.starts_with('#') || is_known("rule", &self.rules) && is_known("endpoint", &self.endpoints)
    }
}

/// Returns the escaped value of a label. A quote in a value has a backslash before it, so no value can be taken for a label.
fn label<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let begin = ["{", ","].iter().find_map(|before| {
        let label = format!("{before}{name}=\"");
        Some(line.find(&label)? + label.len())
    })?;
    let rest = &line[begin..];
    let mut is_escaped = false;
    let end = rest.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })?;
    Some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(rules: &[&str], endpoints: &[&str]) -> PublicNames {
        let set = |names: &[&str]| names.iter().map(|name| escaped(name).into_owned()).collect();
        PublicNames { rules: set(rules), endpoints: set(endpoints) }
    }

    #[test]
    fn lines_with_unpublished_rules_or_paths_are_omitted() {
        let text = "# HELP d How often.\n\
            d{rule=\"api\",outcome=\"allow\"} 1\nd{rule=\"hidden\",outcome=\"allow\"} 2\n\
            e{endpoint=\"/secret/*\",rule=\"api\"} 3\ne{endpoint=\"/api/*\",rule=\"api\"} 4\n\
            f{why=\"x\",rule=\"hid\\\"den\"} 5\nkeys 6\n";
        let visible = names(&["api"], &["/api/*"]).visible_part(text);
        let expected = "# HELP d How often.\nd{rule=\"api\",outcome=\"allow\"} 1\n\
            e{endpoint=\"/api/*\",rule=\"api\"} 4\nkeys 6\n";
        assert_eq!(visible, expected);
        assert!(names(&["hid\"den"], &[]).visible_part(text).contains("f{why"));
    }

    #[test]
    fn label_like_text_in_a_value_is_not_a_label() {
        assert_eq!(label("a{b=\",rule=\\\"x\\\"\",rule=\"y\"} 1", "rule"), Some("y"));
        assert_eq!(label("a{subrule=\"x\"} 1", "rule"), None);
    }
}
