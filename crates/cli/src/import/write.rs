//! Writes imported rules as a policy file.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::configuration::EnvoyAmount;
use super::identity_names::EntryIdentity;
use super::rules::{EntryCondition, ImportedRule};

pub(super) fn policy(rules: &[ImportedRule]) -> String {
    let mut text = "# Written by `tollgate import envoy`.\nversion: 1\n".to_owned();
    let identities: BTreeSet<&EntryIdentity> =
        rules.iter().flat_map(|rule| &rule.conditions).map(|condition| &condition.identity).collect();
    if !identities.is_empty() {
        text.push_str("\n# Entries of the gateway's descriptors.\nidentity:\n");
    }
    for identity in identities {
        // Writing to a string cannot fail.
        let _ = match identity {
            EntryIdentity::Given(name) => writeln!(text, "  {name}: {{ given: true }}"),
            EntryIdentity::Header { name, entry } => {
                writeln!(text, "  {name}: {{ header: {}, trusted: true }}", quoted(entry))
            }
        };
    }
    text.push_str(if rules.is_empty() { "\nrules: []\n" } else { "\nrules:\n" });
    rules.iter().for_each(|rule| push_rule(&mut text, rule));
    text
}

fn push_rule(text: &mut String, rule: &ImportedRule) {
    let denies = rule.amount == EnvoyAmount::Nothing;
    let conditions: Vec<String> =
        rule.conditions.iter().filter_map(|condition| condition_text(condition, denies)).collect();
    let mut lines = vec![format!("name: {}", quoted(&rule.name))];
    let identity =
        if conditions.is_empty() { String::new() } else { format!(", identity: {{ {} }}", conditions.join(", ")) };
    lines.push(format!("when: {{ domain: {}, entries: exact{identity} }}", quoted(&rule.domain)));
    let counted = rule.conditions.iter().filter(|condition| condition.counted && !denies);
    let key: Vec<&str> = counted.map(|condition| condition.identity.name()).collect();
    if !key.is_empty() {
        lines.push(format!("key: [{}]", key.join(", ")));
    }
    match &rule.amount {
        EnvoyAmount::Rate(rate) => lines.extend([format!("limit: {rate}"), "algorithm: fixed-window".to_owned()]),
        EnvoyAmount::Unlimited => lines.push("unlimited: true".to_owned()),
        EnvoyAmount::Nothing => lines.push("deny: true # a limit of 0".to_owned()),
    }
    if rule.shadow {
        lines.push("shadow: true".to_owned());
    }
    if !rule.replaces.is_empty() {
        lines.push(format!("replaces: {}", list(&rule.replaces)));
    }
    let _ = writeln!(text, "  - {}", lines.join("\n    "));
}

/// The condition on an entry's value; `None` where the entry only has to be present. The key of a rule already requires
/// the entry, but a rule that denies has no key.
fn condition_text(condition: &EntryCondition, denies: bool) -> Option<String> {
    let name = condition.identity.name();
    match (&condition.is, condition.not.is_empty()) {
        (None, true) => denies.then(|| format!("{name}: true")),
        (None, false) => Some(format!("{name}: {{ not: {} }}", list(&condition.not))),
        (Some(is), true) => Some(format!("{name}: {}", quoted(is))),
        (Some(is), false) => Some(format!("{name}: {{ is: {}, not: {} }}", quoted(is), list(&condition.not))),
    }
}

fn list(texts: &[String]) -> String {
    format!("[{}]", texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", "))
}

/// Quotes a text as JSON, which is valid YAML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
