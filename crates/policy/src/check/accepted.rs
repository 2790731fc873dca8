//! Warnings and notes that a policy accepts by their codes.

use std::collections::HashSet;

use super::words::did_you_mean;
use super::{MAX_PROBLEMS, Remarks, Reporter, codes, found_by, quoted};
use crate::model::Policy;
use crate::problem::{PolicyPathStep, Problem};

/// Warnings that depend on the machine, not only on the policy. They may be accepted where they do not occur.
const MACHINE_DEPENDENT: [&str; 3] = [codes::MISSING_SECRET, codes::MISSING_PASSWORD, codes::SHORT_JWT_SECRET];

/// Checks that every accepted code exists.
pub(super) fn check(policy: &Policy, top: &mut Reporter<'_>) {
    check_codes(&policy.accept, &mut top.member("accept"));
    top.member("rules").each(&policy.rules, |rule, here| check_codes(&rule.accept, &mut here.member("accept")));
}

fn check_codes(accepted: &[String], here: &mut Reporter<'_>) {
    let mut known = HashSet::new();
    here.each(accepted, |code, here| {
        if code == codes::UNUSED_ACCEPT {
            let message = format!("{} cannot be accepted", quoted(code));
            here.add(codes::UNKNOWN_WARNING, message, "remove the unused code from `accept` instead");
        } else if is_error(code) {
            let message = format!("{} is an error, and only warnings and notes can be accepted", quoted(code));
            here.add(codes::UNKNOWN_WARNING, message, format!("`tollgate message {code}` explains how to repair it"));
        } else if !acceptable().any(|known| known == code) {
            let message = format!("unknown warning code {}", quoted(code));
            here.add(codes::UNKNOWN_WARNING, message, did_you_mean(code, acceptable()));
        } else if !known.insert(code) {
            here.add(codes::DUPLICATE_NAME, format!("{} is listed twice", quoted(code)), "remove one of the two");
        }
    });
}

/// Whether a code is always that of an error.
fn is_error(code: &str) -> bool {
    codes::ERROR_CODES.contains(&code) && !codes::SECRET_CODES.contains(&code)
}

/// The codes that can be accepted. [`codes::MISSING_SECRET`] is a note of `validate`, and an error elsewhere.
fn acceptable() -> impl Iterator<Item = &'static str> {
    let all = codes::WARNING_CODES.iter().chain(codes::NOTE_CODES).chain([&codes::MISSING_SECRET]).copied();
    all.filter(|code| *code != codes::UNUSED_ACCEPT)
}

/// Sorts problems into warnings, notes and accepted ones. An accepted code that does not occur causes a warning.
pub(super) fn sort(policy: &Policy, found: Vec<Problem>) -> Remarks {
    // Collection stops at the limit, so an accepted problem may not have been found.
    let unused = if found.len() < MAX_PROBLEMS { unused(policy, &found) } else { Vec::new() };
    let mut remarks = Remarks::default();
    for problem in found {
        let is_accepted = accepts(&policy.accept, &problem)
            || rule_of(&problem)
                .and_then(|at| policy.rules.get(at))
                .is_some_and(|rule| accepts(&rule.accept, &problem));
        if is_accepted {
            remarks.accepted.push(problem);
        } else if codes::NOTE_CODES.contains(&problem.code) {
            remarks.notes.push(problem);
        } else {
            remarks.warnings.push(problem);
        }
    }
    remarks.warnings.extend(unused);
    remarks
}

fn accepts(accepted: &[String], problem: &Problem) -> bool {
    accepted.iter().any(|code| code == problem.code)
}

/// Returns the index of the rule that a problem is about.
pub(super) fn rule_of(problem: &Problem) -> Option<usize> {
    match problem.path.0.as_slice() {
        [PolicyPathStep::Member(rules), PolicyPathStep::Item(at), ..] if rules == "rules" => Some(*at),
        _ => None,
    }
}

fn unused(policy: &Policy, found: &[Problem]) -> Vec<Problem> {
    found_by(|top| {
        let occurs = |code: &str| found.iter().any(|problem| problem.code == code);
        report_unused(&policy.accept, "this policy", occurs, &mut top.member("accept"));
        let mut at = 0;
        top.member("rules").each(&policy.rules, |rule, here| {
            let occurs = |code: &str| found.iter().any(|problem| problem.code == code && rule_of(problem) == Some(at));
            report_unused(&rule.accept, "this rule", occurs, &mut here.member("accept"));
            at += 1;
        });
    })
}

fn report_unused(accepted: &[String], this: &str, occurs: impl Fn(&str) -> bool, here: &mut Reporter<'_>) {
    here.each(accepted, |code, here| {
        // A code that does not exist is an error.
        let exists = acceptable().any(|known| known == code) && !MACHINE_DEPENDENT.contains(&code.as_str());
        if exists && !occurs(code) {
            let message = format!("{} is accepted, but does not occur in {this}", quoted(code));
            here.add(codes::UNUSED_ACCEPT, message, "remove it from `accept`");
        }
    });
}
