//! A policy file with the proposed limits, each with its evidence in comments.

use std::fmt::Write;

use super::endpoint_class::{AUTH_METHOD, EndpointClass, WRITE_METHODS};
use super::report::{Calibration, LimitProposal};
use crate::rate_text::{period_words, rate_text};
use crate::utc_time::UtcTime;

/// Returns the text of a policy with all proposed limits.
#[must_use]
pub fn policy_text(calibration: &Calibration) -> String {
    let mut text = String::new();
    push_head(&mut text, calibration);
    text.push_str("version: 1\n");
    if !calibration.declared_keys.is_empty() {
        text.push_str(
            "\n# The log does not say where these values come from: name the header or claim that has them.\n",
        );
        text.push_str("identity:\n");
        for key in &calibration.declared_keys {
            push(&mut text, format_args!("  {key}: {{ header: x-{}, trusted: true }}\n", key.replace('_', "-")));
        }
    }
    if calibration.proposals.is_empty() {
        text.push_str("\n# There were too few requests to propose a limit.\nrules: []\n");
        return text;
    }
    text.push_str("\nrules:\n");
    for (at, proposal) in calibration.proposals.iter().enumerate() {
        let before = calibration.proposals[..at].iter().filter(|other| other.key == proposal.key);
        push_rule(&mut text, calibration, proposal, &before.map(rule_name).collect::<Vec<_>>());
    }
    text
}

/// Returns the name of a proposal's rule.
pub(super) fn rule_name(proposal: &LimitProposal) -> String {
    format!("{}-per-{}", proposal.class.name(), proposal.key.replace('_', "-"))
}

fn push_head(text: &mut String, calibration: &Calibration) {
    let Calibration { requests, first_ns, last_ns, share_ppm, margin_percent, .. } = calibration;
    let (from, to) = (UtcTime::from_ns(*first_ns), UtcTime::from_ns(*last_ns));
    push(text, format_args!("# Proposed by `tollgate calibrate` from {requests} requests, {from} to {to}.\n"));
    let share = share_text(*share_ppm);
    push(
        text,
        format_args!(
            "# Each limit is what {share} of the well-behaved clients needed, plus {margin_percent} % of margin.\n\
             # `tollgate simulate` shows what the policy does to a log.\n"
        ),
    );
}

/// Returns a share as a percentage: `99.9 %`.
pub(super) fn share_text(share_ppm: u32) -> String {
    let (whole, part) = (share_ppm / 10_000, share_ppm % 10_000);
    if part == 0 {
        return format!("{whole} %");
    }
    let part = format!("{part:04}");
    format!("{whole}.{} %", part.trim_end_matches('0'))
}

fn push_rule(text: &mut String, calibration: &Calibration, proposal: &LimitProposal, before: &[String]) {
    let (evidence, touched) = (&proposal.evidence, &proposal.touched);
    let period = period_words(evidence.period_ns);
    let mut comment = |line: std::fmt::Arguments<'_>| push(text, format_args!("  # {line}\n"));
    comment(format_args!("{}: {}", proposal.class.name(), class_text(proposal.class)));
    comment(format_args!(
        "  {} well-behaved clients sent {} requests; peaks of their 99.9 %: {} in a second, {} in a minute, {} in an hour.",
        evidence.clients, evidence.requests, evidence.per_second.p999, evidence.per_minute.p999, evidence.per_hour.p999
    ));
    comment(format_args!(
        "  At {} per {period}, {} of them fit into a bucket of {} (half into {}, all into {}).",
        evidence.needed_count,
        share_text(calibration.share_ppm),
        evidence.needed_burst,
        evidence.burst.p50,
        evidence.burst.max
    ));
    let refused = match touched.requests {
        0 => "no request".to_owned(),
        requests => format!("{requests} requests of {}", touched.clients),
    };
    comment(format_args!("  The limit refuses {refused} of these clients{}.", outliers_text(proposal)));
    push(text, format_args!("  - name: {}\n", rule_name(proposal)));
    if let Some(when) = when_text(calibration, proposal.class) {
        push(text, format_args!("    when: {when}\n"));
    }
    push(text, format_args!("    key: {}\n    limit: {}\n", proposal.key, rate_text(&proposal.rate)));
    if !before.is_empty() {
        push(text, format_args!("    replaces: [{}]\n", before.join(", ")));
    }
}

/// What the limit refuses of the clients that stand out, in words.
fn outliers_text(proposal: &LimitProposal) -> String {
    let (evidence, touched) = (&proposal.evidence, &proposal.touched);
    let (refused, requests) = (touched.outlier_requests, evidence.outlier_requests);
    match evidence.outliers {
        0 => String::new(),
        1 => format!(", and {refused} of {requests} of one that stands out"),
        outliers => format!(", and {refused} of {requests} of {outliers} that stand out"),
    }
}

/// The requests of a class, in words.
fn class_text(class: EndpointClass) -> &'static str {
    match class {
        EndpointClass::Reads => "all requests to which no rule below applies",
        EndpointClass::Writes => "requests that change something",
        EndpointClass::Auth => "requests that try a secret, by their paths or because many got 401 or 403",
    }
}

fn when_text(calibration: &Calibration, class: EndpointClass) -> Option<String> {
    match class {
        EndpointClass::Reads => None,
        EndpointClass::Writes => Some(format!("{{ method: [{}] }}", WRITE_METHODS.join(", "))),
        EndpointClass::Auth => {
            let paths: Vec<String> =
                calibration.auth_endpoints.iter().map(|endpoint| format!("\"{}\"", endpoint.path)).collect();
            Some(format!("{{ method: {AUTH_METHOD}, path: [{}] }}", paths.join(", ")))
        }
    }
}

fn push(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(line);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percentages() {
        assert_eq!(
            (share_text(999_000), share_text(1_000_000), share_text(50_000)),
            ("99.9 %".to_owned(), "100 %".to_owned(), "5 %".to_owned())
        );
    }
}
