//! Imported rules as a policy file.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::configuration::Amount;
use super::identity_names::Identity;
use super::rules::{Asked, ImportedRule};

pub(super) fn policy(rules: &[ImportedRule]) -> String {
    let mut text = "# Written by `tollgate import envoy`.\nversion: 1\n".to_owned();
    let identities: BTreeSet<&Identity> =
        rules.iter().flat_map(|rule| &rule.asked).map(|asked| &asked.identity).collect();
    if !identities.is_empty() {
        text.push_str("\n# Each is an entry of the gateway's descriptors.\nidentity:\n");
    }
    for identity in identities {
        // A text takes whatever is written to it.
        let _ = match identity {
            Identity::Given(name) => writeln!(text, "  {name}: {{ given: true }}"),
            Identity::Header { name, entry } => {
                writeln!(text, "  {name}: {{ header: {}, trusted: true }}", quoted(entry))
            }
        };
    }
    text.push_str(if rules.is_empty() { "\nrules: []\n" } else { "\nrules:\n" });
    rules.iter().for_each(|rule| push_rule(&mut text, rule));
    text
}

fn push_rule(text: &mut String, rule: &ImportedRule) {
    let denies = rule.amount == Amount::Nothing;
    let conditions: Vec<String> = rule.asked.iter().filter_map(|asked| condition(asked, denies)).collect();
    let mut lines = vec![format!("name: {}", quoted(&rule.name))];
    let identity =
        if conditions.is_empty() { String::new() } else { format!(", identity: {{ {} }}", conditions.join(", ")) };
    lines.push(format!("when: {{ domain: {}, entries: exact{identity} }}", quoted(&rule.domain)));
    let counted = rule.asked.iter().filter(|asked| asked.counted && !denies);
    let key: Vec<&str> = counted.map(|asked| asked.identity.name()).collect();
    if !key.is_empty() {
        lines.push(format!("key: [{}]", key.join(", ")));
    }
    match &rule.amount {
        Amount::Rate(rate) => lines.extend([format!("limit: {rate}"), "algorithm: fixed-window".to_owned()]),
        Amount::Unlimited => lines.push("unlimited: true".to_owned()),
        Amount::Nothing => lines.push("deny: true # a limit of 0".to_owned()),
    }
    if rule.shadow {
        lines.push("shadow: true".to_owned());
    }
    if !rule.replaces.is_empty() {
        lines.push(format!("replaces: {}", list(&rule.replaces)));
    }
    let _ = writeln!(text, "  - {}", lines.join("\n    "));
}

/// What is asked of an entry's value, unless being there is enough. That the key asks for already, which a rule that
/// denies does not have.
fn condition(asked: &Asked, denies: bool) -> Option<String> {
    let name = asked.identity.name();
    match (&asked.is, asked.not.is_empty()) {
        (None, true) => denies.then(|| format!("{name}: true")),
        (None, false) => Some(format!("{name}: {{ not: {} }}", list(&asked.not))),
        (Some(is), true) => Some(format!("{name}: {}", quoted(is))),
        (Some(is), false) => Some(format!("{name}: {{ is: {}, not: {} }}", quoted(is), list(&asked.not))),
    }
}

fn list(texts: &[String]) -> String {
    format!("[{}]", texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", "))
}

/// In double quotes, as JSON writes it, which YAML reads alike.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
