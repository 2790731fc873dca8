//! Checks rules and budgets: names, keys, conditions, grants and escalation.

use std::collections::{BTreeMap, HashSet};

use tollgate_core::{MAX_AMOUNT, MAX_SPAN_NS};

use super::words::{did_you_mean, printable};
use super::{IdentityNames, Reporter, codes, grants, members, quoted, syntax};
use crate::model::{Budget, Condition, Consistency, Networks, OnLimit, Policy, Rule, StaysExact, When};

/// The most identities of a key. A longer key would take more space than its counter.
pub(super) const MAX_KEY_PARTS: usize = 16;

pub(super) fn check(policy: &Policy, names: &IdentityNames<'_>, top: &mut Reporter<'_>) {
    let all: HashSet<&str> = policy.rules.iter().map(|rule| rule.name.as_str()).collect();
    let mut known = HashSet::new();
    let of_name: BTreeMap<&str, &Budget> =
        policy.budgets.iter().rev().map(|budget| (budget.name.as_str(), budget)).collect();
    budgets(policy, &all, names, top);
    top.member("rules").each(&policy.rules, |rule, here| {
        if !known.insert(&rule.name) {
            let message = format!("two rules have the name {}", quoted(&rule.name));
            here.member("name").add(codes::DUPLICATE_NAME, message, "rename one of them");
        }
        if let Some(budget) = &rule.budget {
            of_budget(rule, budget, &of_name, here);
        }
        one(rule, policy, names, here);
        replaces(rule, &all, &mut here.member("replaces"));
    });
}

fn one(rule: &Rule, policy: &Policy, names: &IdentityNames<'_>, here: &mut Reporter<'_>) {
    if !syntax::is_rule_name(&rule.name) {
        let message = format!("{} is not a valid name of a rule", quoted(&rule.name));
        let hint = NAME_HINT;
        here.member("name").add(codes::BAD_NAME, message, hint);
    }
    when(&rule.when, names, &mut here.member("when"));
    if rule.budget.is_none() {
        key(&rule.key, names, &mut here.member("key"));
        grants::check(rule, policy, here);
    }
    if !rule.denies() && rule.budget.is_none() {
        overrides(rule, names, &mut here.member("overrides"));
    }
    grants::cost(rule, policy.paths, &mut here.member("cost"));
    message(rule, &mut here.member("message"));
    if rule.budget.is_none() {
        consistency(rule, &mut here.member("consistency"));
    }
    if let Some(steps) = rule.on_limit.as_ref().filter(|_| rule.budget.is_none()) {
        let mut here = here.member("on_limit");
        on_limit(steps, &mut here);
        if !rule.denies() && rule.allowance.longest_period_ns().is_none() {
            let (message, hint) = members::on_limit_without_limit();
            here.add(codes::MISPLACED_MEMBER, message, hint);
        }
    }
}

/// The hint for names of rules, budgets and regions.
pub(super) const NAME_HINT: &str =
    "begin with a letter or a digit; use letters, digits, `.`, `_` and `-`, at most 64 characters";

/// The longest message of a rule, in characters.
const MAX_MESSAGE: usize = 200;

fn message(rule: &Rule, here: &mut Reporter<'_>) {
    let Some(message) = &rule.message else { return };
    let is_printable = message.chars().all(|c| printable(c) == c);
    let length = message.chars().count();
    if message.trim().is_empty() || !is_printable {
        let what = "a message must not be empty or contain control characters";
        here.add(codes::BAD_TEXT, what, "remove tabs, line breaks and other control characters");
    } else if length > MAX_MESSAGE {
        let what = format!("a message has at most {MAX_MESSAGE} characters, and this one has {length}");
        here.add(codes::BAD_TEXT, what, "shorten it, or link to a page");
    }
    if !rule.publish {
        let what = "`message` is sent to clients, and `publish: false` hides this rule from them";
        here.add(codes::MISPLACED_MEMBER, what, "remove `message` or `publish: false`");
    }
}

/// Reports `consistency: leased` in a rule whose tokens cannot be leased. A shadow rule can be leased once it is enforced.
fn consistency(rule: &Rule, here: &mut Reporter<'_>) {
    let is_leased = rule.consistency == Some(Consistency::Leased);
    let reason = StaysExact::of(rule).filter(|reason| is_leased && *reason != StaysExact::Shadow);
    if let Some(reason) = reason {
        let (message, hint) = members::leased_beside(reason.member(), reason.why());
        here.add(codes::MISPLACED_MEMBER, message, hint);
    }
}

/// Checks the budgets.
fn budgets(policy: &Policy, rules: &HashSet<&str>, names: &IdentityNames<'_>, top: &mut Reporter<'_>) {
    let mut known = HashSet::new();
    for budget in &policy.budgets {
        let mut here = top.at(top.path.member("budgets").member(&budget.name));
        let name = quoted(&budget.name);
        if !syntax::is_rule_name(&budget.name) {
            let message = format!("{name} is not a valid name of a budget");
            let hint = NAME_HINT;
            here.add(codes::BAD_NAME, message, hint);
        }
        if rules.contains(budget.name.as_str()) {
            let message = format!("{name} is the name of a rule and of a budget, and names of counters must differ");
            here.add(codes::DUPLICATE_NAME, message, "rename one of them");
        } else if !known.insert(budget.name.as_str()) {
            let message = format!("two budgets have the name {name}");
            here.add(codes::DUPLICATE_NAME, message, "rename one of them");
        }
        key(&budget.key, names, &mut here.member("key"));
        let counting = Rule { key: budget.key.clone(), allowance: budget.allowance.clone(), ..Rule::new(&budget.name) };
        if counting.denies() || grants::member_of(&counting.allowance) == "concurrency" {
            here.add(
                codes::MISPLACED_MEMBER,
                "a budget limits rates, not concurrency, and cannot deny",
                "use `limit` or `tiers`",
            );
        } else {
            grants::check(&counting, policy, &mut here);
        }
    }
}

/// Reports an unknown budget, and members that cannot be combined with `budget`.
fn of_budget(rule: &Rule, name: &str, budgets: &BTreeMap<&str, &Budget>, here: &mut Reporter<'_>) {
    let Some(budget) = budgets.get(name) else {
        let hint = match did_you_mean(name, budgets.keys().copied()) {
            hint if hint.is_empty() => format!("add it: `budgets: {{ {name}: {{ key: user, limit: 1000/min }} }}`"),
            hint => hint,
        };
        return here.member("budget").add(codes::UNKNOWN_BUDGET, format!("unknown budget {}", quoted(name)), hint);
    };
    for (member, is_there) in [
        ("key", rule.key != budget.key),
        (grants::member_of(&rule.allowance), rule.allowance != budget.allowance),
        ("on_limit", rule.on_limit.is_some()),
        ("overrides", !rule.overrides.is_empty()),
        ("on_failure", rule.on_failure.is_some()),
        ("consistency", rule.consistency != budget.consistency),
        ("shadow", rule.shadow),
    ] {
        if is_there {
            let (message, hint) = members::beside_budget(member);
            here.member(member).add(codes::MISPLACED_MEMBER, message, hint);
        }
    }
}

fn key(key: &[String], names: &IdentityNames<'_>, here: &mut Reporter<'_>) {
    here.range(key.len() as u64, 0..=MAX_KEY_PARTS as u64, "the number of identities in a key");
    let mut known = HashSet::new();
    here.each(key, |name, here| {
        names.check(name, here);
        if !known.insert(name) {
            here.add(
                codes::DUPLICATE_NAME,
                format!("{} is listed twice in this key", quoted(name)),
                "remove one of the two",
            );
        }
    });
}

fn when(when: &When, names: &IdentityNames<'_>, here: &mut Reporter<'_>) {
    here.member("method").each(&when.methods, |method, here| here.method(method));
    here.member("host").each(&when.hosts, |host, here| here.host(host));
    here.member("path").each(&when.paths, |pattern, here| syntax::check_path(pattern, here));
    for (name, condition) in &when.headers {
        let mut here = here.at(here.path.member("headers").member(name));
        here.header(name);
        not_empty(condition, &mut here);
    }
    for (name, condition) in &when.identities {
        let mut here = here.at(here.path.member("identity").member(name));
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
            here.add(codes::UNKNOWN_RULE, "a rule cannot replace itself", "name another rule, or remove it");
        } else if !all.contains(name.as_str()) {
            let hint = did_you_mean(name, all.iter().copied().filter(|other| *other != rule.name));
            here.add(codes::UNKNOWN_RULE, format!("unknown rule {}", quoted(name)), hint);
        }
    });
}

fn overrides(rule: &Rule, names: &IdentityNames<'_>, here: &mut Reporter<'_>) {
    let mut known = HashSet::new();
    here.each(&rule.overrides, |own, here| {
        let (parts, needed) = (own.key.len(), rule.key.len());
        if needed == 0 {
            let message = "`overrides` needs a key, and this rule has one counter for all clients";
            here.add(codes::OVERRIDE_PARTS, message, "add `key:` to the rule, or remove `overrides`");
        } else if parts != needed {
            let plural = if needed == 1 { "" } else { "s" };
            let message = format!("the key of the rule has {needed} part{plural}, and this override has {parts}");
            let hint = match needed {
                1 => "write one pattern".to_owned(),
                _ => format!(
                    "write a list of {{ key: [..], limit: .. }}, with {needed} patterns in each `key`; `*` matches any value"
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
    here.range(steps.span_ns, 1..=MAX_SPAN_NS, "the period of violations, in nanoseconds,");
    let Some(block) = steps.block else { return };
    here.range(block.after, 1..=MAX_AMOUNT, "the number of violations");
    here.range(block.duration_ns, 1..=MAX_SPAN_NS, "the duration of a block, in nanoseconds,");
    if block.after < steps.warn_first {
        let (after, first) = (block.after, steps.warn_first);
        let message = format!(
            "`after` is {after}, and must be at least `first`, which is {first}: warned requests are not blocked"
        );
        here.add(codes::BAD_STEP, message, "raise `after`, or lower `first`");
    }
}
