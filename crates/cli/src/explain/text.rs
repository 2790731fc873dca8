//! An explanation for people.

use std::fmt::Write;

use tollgate::policy::promise::{algorithm_words, limit_words, most_words};
use tollgate::policy::{Access, Application, CompiledPolicy, ExplainedRule, Explanation, GrantSource, RuleOutcome};

use crate::colours::Colours;

pub(super) fn page(plan: &CompiledPolicy, explanation: &Explanation) -> String {
    let mut page = String::new();
    push_block(&mut page, "request", &understood(explanation));
    if !explanation.identities.is_empty() {
        page.push('\n');
        push_block(&mut page, "identities", &explanation.identities);
    }
    push_line(&mut page, format_args!("\n{}", access(explanation)));
    for rule in &explanation.rules {
        page.push('\n');
        push_rule(&mut page, plan, rule);
    }
    page
}

fn understood(explanation: &Explanation) -> Vec<(&str, String)> {
    let unknown = || "not known".to_owned();
    let mut understood = vec![
        ("address", explanation.client_ip.map_or_else(unknown, |ip| ip.to_string())),
        ("path", explanation.path.clone().unwrap_or_else(unknown)),
    ];
    let others = explanation.readings.iter().skip(1);
    understood.extend(others.map(|reading| ("or", reading.clone())));
    understood.extend(explanation.tier.iter().map(|tier| ("tier", tier.clone())));
    understood
}

fn access(explanation: &Explanation) -> String {
    let by = explanation.decided_by.as_ref().map_or_else(String::new, |entry| format!(" by {entry}"));
    let applying = explanation.rules.iter().filter(|rule| matches!(rule.outcome, RuleOutcome::Applies(_))).count();
    match explanation.access {
        Access::Denied if explanation.rules.is_empty() => format!("denied{by}: it meets no rule"),
        Access::Denied => format!("denied{by}: nothing is charged"),
        Access::Allowed => format!("allowed{by}: it meets no rule"),
        Access::Unauthorized => format!("refused{by}: it meets no rule"),
        Access::Rules => format!("the rules decide: {applying} of {} apply", explanation.rules.len()),
    }
}

fn push_rule(page: &mut String, plan: &CompiledPolicy, rule: &ExplainedRule) {
    match &rule.outcome {
        RuleOutcome::Applies(application) => {
            let is_shadow = plan.rules().get(rule.rule as usize).is_some_and(|rule| rule.shadow);
            let shadow = if is_shadow { ", as a shadow: it refuses nobody" } else { "" };
            if application.denies {
                return push_denial(page, rule, application, is_shadow);
            }
            push_block(page, &format!("{} applies{shadow}", rule.name), &applied(plan, application, is_shadow));
        }
        RuleOutcome::NotApplied { reason } => {
            push_block(page, &format!("{} does not apply", rule.name), &[("because", reason.clone())]);
        }
    }
}

fn push_denial(page: &mut String, rule: &ExplainedRule, application: &Application, is_shadow: bool) {
    let route = application.route.iter().map(|route| ("path", route.clone())).collect::<Vec<_>>();
    let denies = if is_shadow { "would deny, as a shadow: it refuses nobody" } else { "denies" };
    push_block(page, &format!("{} {denies}", rule.name), &route);
}

fn applied(plan: &CompiledPolicy, application: &Application, is_shadow: bool) -> Vec<(&'static str, String)> {
    let key = if application.key.is_empty() { "everybody together" } else { &application.key };
    let mut told = vec![("key", key.to_owned())];
    told.extend(application.more_keys.iter().map(|key| ("and key", key.clone())));
    told.extend(application.read_as.iter().map(|path| ("read as", path.clone())));
    let whose = match &application.grant {
        GrantSource::Rule => String::new(),
        GrantSource::Tier(tier) => format!(" (tier {tier})"),
        GrantSource::Override(pattern) => format!(" (override for {pattern})"),
    };
    if application.is_unlimited() {
        told.push(("limit", format!("unlimited{whose}")));
    }
    let quotas = application.quotas.iter().filter_map(|at| plan.quotas().get(*at as usize));
    for quota in quotas.map(|planned| &planned.quota) {
        told.push(("limit", format!("{}, {}{whose}", limit_words(quota), algorithm_words(quota))));
        told.extend(most_words(quota).filter(|_| !is_shadow).map(|most| ("passes", most)));
    }
    told.push(("cost", application.cost.to_string()));
    told
}

/// A heading, and names with their values below each other.
fn push_block<N: AsRef<str>>(page: &mut String, heading: &str, told: &[(N, String)]) {
    push_line(page, format_args!("{}", Colours::of_stdout().heading(heading)));
    let width = told.iter().map(|(name, _)| name.as_ref().chars().count()).max().unwrap_or(0);
    for (name, value) in told {
        push_line(page, format_args!("  {:width$}  {}", name.as_ref(), printable(value)));
    }
}

/// What a request says may hold anything, also what would move a terminal.
fn printable(value: &str) -> String {
    value.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

fn push_line(page: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(page, "{line}");
}
