//! An explanation as text.

use tollgate::policy::promise::{algorithm_words, limit_words, most_words};
use tollgate::policy::{Access, Application, CompiledPolicy, ExplainedRule, Explanation, GrantSource, RuleOutcome};

use crate::blocks::{push_block, push_line};

pub(super) fn page(policy: &CompiledPolicy, explanation: &Explanation) -> String {
    let mut page = String::new();
    push_block(&mut page, "request", &request_lines(explanation));
    if !explanation.identities.is_empty() {
        page.push('\n');
        push_block(&mut page, "identities", &explanation.identities);
    }
    push_line(&mut page, format_args!("\n{}", access(explanation)));
    for rule in &explanation.rules {
        page.push('\n');
        push_rule(&mut page, policy, rule);
    }
    page
}

fn request_lines(explanation: &Explanation) -> Vec<(&str, String)> {
    let unknown = || "unknown".to_owned();
    let mut lines = vec![
        ("address", explanation.client_ip.map_or_else(unknown, |ip| ip.to_string())),
        ("path", explanation.path.clone().unwrap_or_else(unknown)),
    ];
    let others = explanation.readings.iter().skip(1);
    lines.extend(others.map(|reading| ("or", reading.clone())));
    lines.extend(explanation.tier.iter().map(|tier| ("tier", tier.clone())));
    lines
}

fn access(explanation: &Explanation) -> String {
    let by = explanation.decided_by.as_ref().map_or_else(String::new, |entry| format!(" by {entry}"));
    let applying = explanation.rules.iter().filter(|rule| matches!(rule.outcome, RuleOutcome::Applies(_))).count();
    match explanation.access {
        Access::Denied if explanation.rules.is_empty() => format!("denied{by}: no rule applies"),
        Access::Denied => format!("denied{by}: nothing is charged"),
        Access::Allowed => format!("allowed{by}: no rule applies"),
        Access::Unauthorized => format!("refused{by}: no rule applies"),
        Access::Rules => format!("the rules decide: {applying} of {} apply", explanation.rules.len()),
    }
}

fn push_rule(page: &mut String, policy: &CompiledPolicy, rule: &ExplainedRule) {
    match &rule.outcome {
        RuleOutcome::Applies(application) => {
            let is_shadow = policy.rules().get(rule.rule as usize).is_some_and(|rule| rule.shadow);
            let shadow = if is_shadow { ", as a shadow rule: it refuses no request" } else { "" };
            if application.denies {
                return push_denial(page, rule, application, is_shadow);
            }
            let mut lines = application_lines(policy, application, is_shadow);
            if let Some(budget) = policy.rules().get(rule.rule as usize).and_then(|rule| rule.budget.as_deref()) {
                lines.push(("budget", format!("{budget}: charged once for all its rules, with the largest cost")));
            }
            push_block(page, &format!("{} applies{shadow}", rule.name), &lines);
        }
        RuleOutcome::NotApplied { reason } => {
            push_block(page, &format!("{} does not apply", rule.name), &[("because", reason.clone())]);
        }
    }
}

fn push_denial(page: &mut String, rule: &ExplainedRule, application: &Application, is_shadow: bool) {
    let route = application.route.iter().map(|route| ("path", route.clone())).collect::<Vec<_>>();
    let denies = if is_shadow { "would deny, as a shadow rule: it refuses no request" } else { "denies" };
    push_block(page, &format!("{} {denies}", rule.name), &route);
}

fn application_lines(
    policy: &CompiledPolicy,
    application: &Application,
    is_shadow: bool,
) -> Vec<(&'static str, String)> {
    let key = if application.key.is_empty() { "none: one counter for all requests" } else { &application.key };
    let mut lines = vec![("key", key.to_owned())];
    lines.extend(application.more_keys.iter().map(|key| ("and key", key.clone())));
    lines.extend(application.read_as.iter().map(|path| ("read as", path.clone())));
    let granted_to = match &application.grant {
        GrantSource::Rule => String::new(),
        GrantSource::Tier(tier) => format!(" (tier {tier})"),
        GrantSource::Override(pattern) => format!(" (override for {pattern})"),
    };
    if application.is_unlimited() {
        lines.push(("limit", format!("unlimited{granted_to}")));
    }
    let quotas = application.quotas.iter().filter_map(|at| policy.quotas().get(*at as usize));
    for quota in quotas.map(|quota| &quota.quota) {
        lines.push(("limit", format!("{}, {}{granted_to}", limit_words(quota), algorithm_words(quota))));
        lines.extend(most_words(quota).filter(|_| !is_shadow).map(|most| ("passes", most)));
    }
    lines.push(("cost", application.cost.to_string()));
    lines
}
