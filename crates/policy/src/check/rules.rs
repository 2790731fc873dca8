//! Rules: their names, keys, conditions, grants and steps.

use std::collections::HashSet;

use tollgate_core::{MAX_AMOUNT, MAX_SPAN_NS};

use super::words::did_you_mean;
use super::{Names, Reporter, codes, grants, members, quoted, syntax};
use crate::model::{Condition, Networks, OnLimit, Policy, Rule, When};

/// More parts would make a key that is longer than what it counts.
pub(super) const MAX_KEY_PARTS: usize = 16;

pub(super) fn check(policy: &Policy, names: &Names<'_>, top: &mut Reporter<'_>) {
    let all: HashSet<&str> = policy.rules.iter().map(|rule| rule.name.as_str()).collect();
    let mut known = HashSet::new();
    top.member("rules").each(&policy.rules, |rule, here| {
        if !known.insert(&rule.name) {
            let message = format!("there are two rules of the name {}", quoted(&rule.name));
            here.member("name").add(codes::DUPLICATE_NAME, message, "give one of them another name");
        }
        one(rule, policy, names, here);
        replaces(rule, &all, &mut here.member("replaces"));
    });
}

fn one(rule: &Rule, policy: &Policy, names: &Names<'_>, here: &mut Reporter<'_>) {
    if !syntax::is_rule_name(&rule.name) {
        let message = format!("{} cannot be the name of a rule", quoted(&rule.name));
        let hint = "a name begins with a letter or a digit, and has letters, digits, `.`, `_` and `-`, at most 64";
        here.member("name").add(codes::BAD_NAME, message, hint);
    }
    key(rule, names, &mut here.member("key"));
    when(&rule.when, names, &mut here.member("when"));
    grants::check(rule, policy, here);
    if !rule.denies() {
        overrides(rule, names, &mut here.member("overrides"));
    }
    grants::cost(rule, &mut here.member("cost"));
    if let Some(steps) = &rule.on_limit {
        let mut here = here.member("on_limit");
        on_limit(steps, &mut here);
        if !rule.denies() && rule.allowance.longest_period_ns().is_none() {
            let (message, hint) = members::on_limit_without_limit();
            here.add(codes::MISPLACED_MEMBER, message, hint);
        }
    }
}

fn key(rule: &Rule, names: &Names<'_>, here: &mut Reporter<'_>) {
    here.range(rule.key.len() as u64, 0..=MAX_KEY_PARTS as u64, "the number of a key's parts");
    let mut known = HashSet::new();
    here.each(&rule.key, |name, here| {
        names.check(name, here);
        if !known.insert(name) {
            here.add(codes::DUPLICATE_NAME, format!("{} is twice in this key", quoted(name)), "once is enough");
        }
    });
}

fn when(when: &When, names: &Names<'_>, here: &mut Reporter<'_>) {
    here.member("method").each(&when.methods, |method, here| here.method(method));
    here.member("host").each(&when.hosts, |host, here| here.host(host));
    here.member("path").each(&when.paths, |pattern, here| syntax::check_path(pattern, here));
    for (name, condition) in &when.headers {
        let mut here = here.at(here.place.member("headers").member(name));
        here.header(name);
        not_empty(condition, &mut here);
    }
    for (name, condition) in &when.identities {
        let mut here = here.at(here.place.member("identity").member(name));
        names.check(name, &mut here);
        not_empty(condition, &mut here);
        match condition {
            Condition::Present | Condition::Absent => {}
            Condition::OneOf(these) => names.check_patterns(name, these, &mut here),
            Condition::OneOfBut { these, but_not } => {
                names.check_patterns(name, these, &mut here.member("is"));
                names.check_patterns(name, but_not, &mut here.member("not"));
            }
        }
    }
    here.member("domain").each(&when.domains, |domain, here| here.text(domain, "a domain"));
    match &when.network {
        Some(Networks::Among(networks)) => here.member("network").not_empty(networks, "network"),
        Some(Networks::NotAmong(networks)) => here.member("network").member("not").not_empty(networks, "network"),
        Some(Networks::Internal | Networks::NotInternal) | None => {}
    }
}

fn not_empty(condition: &Condition, here: &mut Reporter<'_>) {
    if let Condition::OneOf(patterns) | Condition::OneOfBut { but_not: patterns, .. } = condition {
        here.not_empty(patterns, "text");
    }
}

fn replaces(rule: &Rule, all: &HashSet<&str>, here: &mut Reporter<'_>) {
    here.each(&rule.replaces, |name, here| {
        if *name == rule.name {
            here.add(codes::UNKNOWN_RULE, "a rule cannot replace itself", "name another rule, or leave it out");
        } else if !all.contains(name.as_str()) {
            let hint = did_you_mean(name, all.iter().copied().filter(|other| *other != rule.name));
            here.add(codes::UNKNOWN_RULE, format!("there is no rule {}", quoted(name)), hint);
        }
    });
}

fn overrides(rule: &Rule, names: &Names<'_>, here: &mut Reporter<'_>) {
    let mut known = HashSet::new();
    here.each(&rule.overrides, |own, here| {
        let (parts, needed) = (own.key.len(), rule.key.len());
        if needed == 0 {
            let message = "a rule without a key counts everybody together, so there is nothing to override";
            here.add(codes::OVERRIDE_PARTS, message, "add `key:` to the rule, or leave out `overrides`");
        } else if parts != needed {
            let plural = if needed == 1 { "" } else { "s" };
            let message = format!("the rule's key has {needed} part{plural}, this override has {parts}");
            let hint = match needed {
                1 => "write one text".to_owned(),
                _ => format!(
                    "write a list of {{ key: [..], limit: .. }}, with {needed} texts in each `key`; `*` stands for any"
                ),
            };
            here.add(codes::OVERRIDE_PARTS, message, hint);
        } else if !known.insert(&own.key) {
            here.add(codes::DUPLICATE_NAME, "this key is overridden twice", "keep one of the two");
        }
        for (identity, pattern) in rule.key.iter().zip(&own.key) {
            names.check_pattern(identity, &pattern.0, here);
        }
        grants::grant(&own.grant, here);
    });
}

fn on_limit(steps: &OnLimit, here: &mut Reporter<'_>) {
    here.range(steps.warn_first, 0..=MAX_AMOUNT, "the number of warnings");
    here.range(steps.span_ns, 1..=MAX_SPAN_NS, "the span of violations, in nanoseconds,");
    let Some(block) = steps.block else { return };
    here.range(block.after, 1..=MAX_AMOUNT, "the number of violations");
    here.range(block.duration_ns, 1..=MAX_SPAN_NS, "the time of a block, in nanoseconds,");
    if block.after < steps.warn_first {
        let (after, first) = (block.after, steps.warn_first);
        let message = format!("blocks after {after} violations, but the first {first} are to pass");
        here.add(codes::BAD_STEP, message, "let `after` be at least `first`");
    }
}
