//! A summary of what a reload changed.

use tollgate::policy::CheckedPolicy;
use tollgate::policy::model::{Allowance, Grant, Policy, Rule};
use tollgate::policy::promise::{algorithm_words, limit_words};

/// The most rules of one kind that a summary names.
const MAX_NAMED: usize = 10;

/// Describes how `now` differs from `before`: rules that were added, removed and changed, with their limits, and other
/// settings.
pub(super) fn describe(before: &CheckedPolicy, now: &CheckedPolicy) -> String {
    let find = |policy: &'_ CheckedPolicy, name: &str| policy.rules.iter().find(|rule| rule.name == name).cloned();
    let added = now.rules.iter().filter(|rule| find(before, &rule.name).is_none());
    let removed = before.rules.iter().filter(|rule| find(now, &rule.name).is_none());
    let changed = now.rules.iter().filter_map(|rule| changes(&find(before, &rule.name)?, rule));
    let mut parts: Vec<String> = [
        rules("added", added.map(|rule| format!("`{}` ({})", rule.name, limits(&rule.allowance))).collect()),
        rules("removed", removed.map(|rule| format!("`{}`", rule.name)).collect()),
        rules("changed", changed.collect()),
    ]
    .into_iter()
    .flatten()
    .collect();
    if let Some(names) = settings(before, now) {
        let also = if parts.is_empty() { "" } else { "also " };
        parts.push(format!("{also}changed: {names}"));
    }
    if parts.is_empty() { "no changes".to_owned() } else { parts.join("; ") }
}

/// `1 rule added: ..`, `2 rules added: ..`; `None` without rules.
fn rules(verb: &str, rules: Vec<String>) -> Option<String> {
    let count = rules.len();
    let noun = match count {
        0 => return None,
        1 => "rule",
        _ => "rules",
    };
    let more = if count > MAX_NAMED { format!(", and {} more", count - MAX_NAMED) } else { String::new() };
    let named: Vec<String> = rules.into_iter().take(MAX_NAMED).collect();
    Some(format!("{count} {noun} {verb}: {}{more}", named.join(", ")))
}

/// How a rule has changed; `None` if it has not.
fn changes(before: &Rule, now: &Rule) -> Option<String> {
    let mut parts = Vec::new();
    if before.allowance != now.allowance {
        parts.push(format!("{}, was {}", limits(&now.allowance), limits(&before.allowance)));
    }
    let members = [
        ("when", before.when != now.when),
        ("key", before.key != now.key),
        ("cost", before.cost != now.cost),
        ("on_limit", before.on_limit != now.on_limit),
        ("shadow", before.shadow != now.shadow),
        ("publish", before.publish != now.publish),
        ("overrides", before.overrides != now.overrides),
        ("on_failure", before.on_failure != now.on_failure),
        ("consistency", before.consistency != now.consistency),
        ("replaces", before.replaces != now.replaces),
        ("message", before.message != now.message),
        ("budget", before.budget != now.budget),
        ("accept", before.accept != now.accept),
    ];
    parts.extend(differing(&members));
    (!parts.is_empty()).then(|| format!("`{}` ({})", now.name, parts.join("; ")))
}

/// The names of other settings that have changed.
fn settings(before: &Policy, now: &Policy) -> Option<String> {
    let sections = [
        ("identity", before.identities != now.identities || before.client_ip != now.client_ip),
        ("tier", before.tier != now.tier),
        ("jwt", before.jwt != now.jwt),
        ("secrets", before.secret_key != now.secret_key),
        ("deny", before.deny != now.deny),
        ("allow", before.allow != now.allow),
        ("budgets", before.budgets != now.budgets),
        ("paths", before.paths != now.paths),
        ("headers", before.fields.sets != now.fields.sets),
        ("reset", before.fields.reset != now.fields.reset),
        ("jitter", before.fields.jitter_ns != now.fields.jitter_ns),
        ("store", before.store != now.store),
        ("regions", before.regions != now.regions),
        ("accept", before.accept != now.accept),
    ];
    differing(&sections)
}

/// The names whose values differ, separated by commas; `None` if all are equal.
fn differing(names: &[(&str, bool)]) -> Option<String> {
    let names: Vec<&str> = names.iter().filter(|(_, differs)| *differs).map(|(name, _)| *name).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// The limits of a rule: `60/min burst 60, token-bucket`, `free: .. / pro: ..`, `deny`.
fn limits(allowance: &Allowance) -> String {
    match allowance {
        Allowance::Same(grant) => grant_text(grant),
        Allowance::Tiers(tiers) => {
            let tiers: Vec<String> =
                tiers.iter().map(|(tier, grant)| format!("{tier}: {}", grant_text(grant))).collect();
            tiers.join(" / ")
        }
        Allowance::Deny => "deny".to_owned(),
    }
}

fn grant_text(grant: &Grant) -> String {
    match grant {
        Grant::Unlimited => "unlimited".to_owned(),
        Grant::Limited(quotas) => {
            let texts: Vec<String> =
                quotas.iter().map(|quota| format!("{} {}", limit_words(quota), algorithm_words(quota))).collect();
            texts.join(" and ")
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate::policy::parse;

    use super::*;

    fn policy(text: &str) -> CheckedPolicy {
        parse(&format!("version: 1\n{text}\n"), "policy", None).unwrap().policy
    }

    fn described(before: &str, now: &str) -> String {
        describe(&policy(before), &policy(now))
    }

    const BEFORE: &str = "rules: [{ name: a, key: client_ip, limit: 5/min }, { name: b, limit: 1/s }]";

    #[test]
    fn equal_policies_have_no_changes() {
        assert_eq!(described(BEFORE, BEFORE), "no changes");
    }

    #[test]
    fn added_and_removed_rules_are_named() {
        let now = "rules: [{ name: a, key: client_ip, limit: 5/min }, { name: c, deny: true }]";
        assert_eq!(described(BEFORE, now), "1 rule added: `c` (deny); 1 rule removed: `b`");
        let many: Vec<String> = (0..12).map(|at| format!("{{ name: r{at}, limit: 1/s }}")).collect();
        let text = described(BEFORE, &format!("rules: [{}]", many.join(", ")));
        assert!(text.starts_with("12 rules added: `r0` (1/s burst 2 token-bucket), "), "{text}");
        assert!(text.contains(", and 2 more; 2 rules removed: `a`, `b`"), "{text}");
    }

    #[test]
    fn changed_rules_are_named_with_old_and_new_limits() {
        let now = "rules: [{ name: a, key: client_ip, limit: 9/min }, { name: b, limit: 1/s, shadow: true }]";
        let expected =
            "2 rules changed: `a` (9/min burst 9 token-bucket, was 5/min burst 5 token-bucket), `b` (shadow)";
        assert_eq!(described(BEFORE, now), expected);
        let window =
            "rules: [{ name: a, key: client_ip, limit: 5/min, algorithm: fixed-window }, { name: b, limit: 1/s }]";
        let expected = "1 rule changed: `a` (5/min fixed-window, was 5/min burst 5 token-bucket)";
        assert_eq!(described(BEFORE, window), expected);
    }

    #[test]
    fn changed_consistency_is_named() {
        let rules = |own: &str| format!("rules: [{{ name: a, key: client_ip, limit: 50/s{own} }}]");
        let store = |consistency: &str| format!("store: {{ redis: {{ nodes: 'a:1', consistency: {consistency} }} }}");
        let policy = |own: &str, by_default: &str| format!("{}\n{}", rules(own), store(by_default));
        let exact = policy("", "exact");
        let own = policy(", consistency: leased", "exact");
        assert_eq!(described(&exact, &own), "1 rule changed: `a` (consistency)");
        assert_eq!(described(&exact, &policy("", "leased")), "changed: store");
    }

    #[test]
    fn changed_regions_are_named() {
        let policy = |weights: &str| {
            let rules = "rules: [{ name: a, key: client_ip, limit: 50/s, consistency: regional }]";
            format!("{rules}\nregions: {{ weights: {weights}, global: {{ nodes: 'g:1' }} }}")
        };
        let before = policy("{ eu: 1, us: 1 }");
        assert_eq!(described(&before, &policy("{ eu: 2, us: 1 }")), "changed: regions");
    }

    #[test]
    fn other_changed_settings_are_named() {
        let now = format!("deny: {{ client_ip: 192.0.2.1 }}\nheaders: [ietf]\n{BEFORE}");
        assert_eq!(described(BEFORE, &now), "changed: deny, headers");
        let now = format!("reset: delta\njitter: 2s\naccept: missing-password\n{BEFORE}");
        assert_eq!(described(BEFORE, &now), "changed: reset, jitter, accept");
        let now = "jitter: 2s\nrules: [{ name: a, key: client_ip, limit: 5/min }]";
        assert_eq!(described(BEFORE, now), "1 rule removed: `b`; also changed: jitter");
    }

    #[test]
    fn accepted_warnings_of_a_rule_are_a_change() {
        let now =
            "rules: [{ name: a, key: client_ip, limit: 5/min, accept: missing-password }, { name: b, limit: 1/s }]";
        assert_eq!(described(BEFORE, now), "1 rule changed: `a` (accept)");
    }
}
