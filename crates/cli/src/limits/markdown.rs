//! Published limits as a Markdown page.

use std::fmt::Write;

use tollgate::policy::published::{Published, PublishedGrant, PublishedRule};

pub(super) fn document(published: &Published) -> String {
    let mut page = String::from("# Rate limits\n");
    if published.rules.is_empty() {
        page.push_str("\nThere are no limits.\n");
        return page;
    }
    let any_limits = published.rules.iter().any(|rule| !rule.denies);
    if any_limits {
        page.push_str("\nA request must stay within every limit that applies to it.\n");
    }
    for rule in &published.rules {
        push_rule(&mut page, rule);
    }
    if !any_limits {
        return page;
    }
    page.push_str("\n## Response fields\n\n| field | meaning |\n| --- | --- |\n");
    for field in &published.fields {
        push_line(&mut page, format_args!("| `{}` | {} |", field.name, field.meaning));
    }
    page.push_str("\n## How to behave\n\n");
    for sentence in &published.advice {
        push_line(&mut page, format_args!("- {sentence}"));
    }
    page
}

fn push_rule(page: &mut String, rule: &PublishedRule) {
    push_line(page, format_args!("\n## {}\n", rule.name));
    if rule.denies {
        push_line(page, format_args!("Denies {}.\n", rule.applies_to));
        rule.beyond.iter().for_each(|sentence| push_line(page, format_args!("- {sentence}")));
        return;
    }
    push_line(page, format_args!("Applies to {}. Counts {}.\n", rule.applies_to, rule.counts));
    match &rule.grants[..] {
        [PublishedGrant { tier: None, .. }] => push_limits(page, rule),
        _ => push_tiers(page, rule),
    }
    for sentence in explanations(rule).into_iter().chain(rule.cost.iter().map(String::as_str)) {
        push_line(page, format_args!("- {sentence}"));
    }
    for sentence in &rule.beyond {
        push_line(page, format_args!("- {sentence}"));
    }
}

fn push_limits(page: &mut String, rule: &PublishedRule) {
    for limit in rule.grants.iter().flat_map(|grant| &grant.limits) {
        push_line(page, format_args!("- **{}**", limit.summary));
    }
}

fn push_tiers(page: &mut String, rule: &PublishedRule) {
    page.push_str("| tier | limit |\n| --- | --- |\n");
    for grant in &rule.grants {
        let tier = cell(grant.tier.as_deref().unwrap_or("all clients"));
        let default = if grant.is_default { " (default)" } else { "" };
        let summaries: Vec<&str> = grant.limits.iter().map(|limit| limit.summary.as_str()).collect();
        let limit = if summaries.is_empty() { "unlimited".to_owned() } else { summaries.join("; and ") };
        push_line(page, format_args!("| {tier}{default} | {limit} |"));
    }
    page.push('\n');
}

/// The explanations of the limits, without repetitions.
fn explanations(rule: &PublishedRule) -> Vec<&str> {
    let mut explanations = Vec::new();
    for limit in rule.grants.iter().flat_map(|grant| &grant.limits) {
        if !explanations.contains(&limit.explanation.as_str()) {
            explanations.push(limit.explanation.as_str());
        }
    }
    explanations
}

/// Escapes a text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn push_line(page: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(page, "{line}");
}
