use std::collections::HashSet;

use tollgate_core::{MAX_AMOUNT, MAX_SPAN_NS};

use super::names::Names;
use super::nearest::nearest;
use super::problems::Problems;
use super::words::quoted;
use super::{codes, cost, grants, patterns, syntax, when};
use crate::model::{OnLimit, Policy, Rule};
use crate::problem::Place;

/// More parts would make a key that is longer than what it counts.
pub(super) const MAX_KEY_PARTS: usize = 16;

pub(super) fn check(policy: &Policy, names: &Names<'_>, problems: &mut Problems) {
    let all: HashSet<&str> = policy.rules.iter().map(|rule| rule.name.as_str()).collect();
    let mut known = HashSet::new();
    for (at, rule) in policy.rules.iter().enumerate() {
        let place = Place::top().member("rules").item(at);
        if !known.insert(&rule.name) {
            let message = format!("there are two rules of the name {}", quoted(&rule.name));
            problems.add(codes::DUPLICATE_NAME, place.member("name"), message, "give one of them another name");
        }
        one(rule, policy, names, &place, problems);
        replaces(rule, &all, &place.member("replaces"), problems);
        if problems.is_full() {
            return;
        }
    }
}

fn one(rule: &Rule, policy: &Policy, names: &Names<'_>, place: &Place, problems: &mut Problems) {
    if !syntax::is_rule_name(&rule.name) {
        let message = format!("{} cannot be the name of a rule", quoted(&rule.name));
        let hint = "a name begins with a letter or a digit, and has letters, digits, `.`, `_` and `-`, at most 64";
        problems.add(codes::BAD_NAME, place.member("name"), message, hint);
    }
    key(rule, names, &place.member("key"), problems);
    when::check(&rule.when, &place.member("when"), names, problems);
    grants::check(rule, policy, place, problems);
    overrides(rule, names, &place.member("overrides"), problems);
    cost::check(rule, &place.member("cost"), problems);
    if let Some(steps) = &rule.on_limit {
        on_limit(steps, &place.member("on_limit"), problems);
    }
}

fn key(rule: &Rule, names: &Names<'_>, place: &Place, problems: &mut Problems) {
    syntax::range(
        rule.key.len() as u64,
        0,
        MAX_KEY_PARTS as u64,
        "the number of a key's parts",
        place.clone(),
        problems,
    );
    let mut known = HashSet::new();
    for (at, name) in rule.key.iter().enumerate() {
        names.check(name, place.item(at), problems);
        if !known.insert(name) {
            let message = format!("{} is twice in this key", quoted(name));
            problems.add(codes::DUPLICATE_NAME, place.item(at), message, "once is enough");
        }
    }
}

fn replaces(rule: &Rule, all: &HashSet<&str>, place: &Place, problems: &mut Problems) {
    for (at, name) in rule.replaces.iter().enumerate() {
        let others = all.iter().copied().filter(|other| *other != rule.name);
        if *name == rule.name {
            let message = "a rule cannot replace itself";
            problems.add(codes::UNKNOWN_RULE, place.item(at), message, "name another rule, or leave it out");
        } else if !all.contains(name.as_str()) {
            let hint =
                nearest(name, others).map_or_else(String::new, |meant| format!("did you mean {}?", quoted(meant)));
            problems.add(codes::UNKNOWN_RULE, place.item(at), format!("there is no rule {}", quoted(name)), hint);
        }
    }
}

fn overrides(rule: &Rule, names: &Names<'_>, place: &Place, problems: &mut Problems) {
    let mut known = HashSet::new();
    for (at, own) in rule.overrides.iter().enumerate() {
        let place = place.item(at);
        let (parts, needed) = (own.key.len(), rule.key.len());
        if needed == 0 {
            let message = "a rule without a key counts everybody together, so there is nothing to override";
            problems.add(
                codes::OVERRIDE_PARTS,
                place.clone(),
                message,
                "add `key:` to the rule, or leave out `overrides`",
            );
        } else if parts != needed {
            let message = format!("the rule's key has {needed} {}, this override has {parts}", plural(needed, "part"));
            let hint = match needed {
                1 => "write one text".to_owned(),
                _ => format!(
                    "write a list of {{ key: [..], limit: .. }}, with {needed} texts in each `key`; `*` stands for any"
                ),
            };
            problems.add(codes::OVERRIDE_PARTS, place.clone(), message, hint);
        } else if !known.insert(&own.key) {
            problems.add(codes::DUPLICATE_NAME, place.clone(), "this key is overridden twice", "keep one of the two");
        }
        for (identity, pattern) in rule.key.iter().zip(&own.key) {
            patterns::check(identity, &pattern.0, names, || place.clone(), problems);
        }
        grants::grant(&own.grant, &place, problems);
    }
}

fn on_limit(steps: &OnLimit, place: &Place, problems: &mut Problems) {
    syntax::range(steps.warn_first, 0, MAX_AMOUNT, "the number of warnings", place.clone(), problems);
    syntax::range(steps.span_ns, 1, MAX_SPAN_NS, "the span of violations, in nanoseconds,", place.clone(), problems);
    let Some(block) = steps.block else { return };
    syntax::range(block.after, 1, MAX_AMOUNT, "the number of violations", place.clone(), problems);
    syntax::range(block.duration_ns, 1, MAX_SPAN_NS, "the time of a block, in nanoseconds,", place.clone(), problems);
    if block.after < steps.warn_first {
        let message =
            format!("blocks after {} violations, but the first {} are to pass", block.after, steps.warn_first);
        problems.add(codes::BAD_STEP, place.clone(), message, "let `after` be at least `first`");
    }
}

fn plural(count: usize, word: &str) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}
