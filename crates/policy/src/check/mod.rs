//! Checks a policy: errors between its parts, and warnings about settings that are valid but likely wrong.
//!
//! The checks run on the model, so a policy from the builder gets the same messages as one from a file. Paths name
//! the members of a file.

mod accepted;
pub(crate) mod codes;
pub(crate) mod grants;
mod identities;
pub(crate) mod members;
pub(crate) mod names;
pub(crate) mod rate_hint;
pub(crate) mod regions;
mod rules;
mod store;
mod syntax;
mod warnings;
pub(crate) mod words;

use crate::model::Policy;
use crate::problem::{PolicyPath, Problem};
use names::IdentityNames;
use words::quoted;

/// Returns all errors of a policy.
pub(crate) fn errors(policy: &Policy) -> Vec<Problem> {
    let names = IdentityNames::of(policy);
    found_by(|top| {
        identities::check(policy, &names, top);
        identities::secrets(policy, top);
        rules::check(policy, &names, top);
        store::check(policy, top);
        regions::check(policy, top);
        accepted::check(policy, top);
    })
}

/// Returns the warnings and notes of a policy, which may have errors too.
pub(crate) fn remarks(policy: &Policy) -> Remarks {
    accepted::sort(policy, found_by(|top| warnings::check(policy, top)))
}

/// Whether an error explains a warning, which only follows from it.
#[cfg(feature = "yaml")]
pub(crate) fn explains(error: &Problem, warning: &Problem) -> bool {
    let (of_error, of_warning) = (accepted::rule_of(error), accepted::rule_of(warning));
    match (error.code, warning.code) {
        (codes::UNKNOWN_BUDGET, codes::UNLIMITED_FOR_ALL) | (codes::COST_NEVER_FITS, codes::COST_ABOVE_LIMIT) => {
            of_error == of_warning
        }
        // `shadow` beside `budget`.
        (codes::MISPLACED_MEMBER, codes::ONLY_SHADOW) => error.path.to_string().ends_with("].shadow"),
        _ => false,
    }
}

/// The warnings and notes of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Remarks {
    /// Valid, but likely a mistake.
    pub(crate) warnings: Vec<Problem>,
    /// Valid, and worth knowing.
    pub(crate) notes: Vec<Problem>,
    /// Warnings and notes that the policy accepts by their codes.
    pub(crate) accepted: Vec<Problem>,
}

fn found_by(check: impl FnOnce(&mut Reporter<'_>)) -> Vec<Problem> {
    let mut problems = Vec::new();
    check(&mut Reporter { path: PolicyPath::top(), problems: &mut problems });
    problems
}

/// The most problems that are collected.
const MAX_PROBLEMS: usize = 200;

/// Collects the problems at one path of a policy.
struct Reporter<'p> {
    path: PolicyPath,
    problems: &'p mut Vec<Problem>,
}

impl Reporter<'_> {
    /// Returns a reporter for a member of this path.
    fn member(&mut self, name: &str) -> Reporter<'_> {
        Reporter { path: self.path.member(name), problems: self.problems }
    }

    /// Returns a reporter for an item of the list at this path.
    fn item(&mut self, position: usize) -> Reporter<'_> {
        Reporter { path: self.path.item(position), problems: self.problems }
    }

    /// Returns a reporter for another path.
    fn at(&mut self, path: PolicyPath) -> Reporter<'_> {
        Reporter { path, problems: self.problems }
    }

    /// Checks each item of the list at this path, until the limit of problems is reached.
    fn each<'l, T>(&mut self, list: &'l [T], mut check: impl FnMut(&'l T, &mut Reporter<'_>)) {
        for (at, item) in list.iter().enumerate() {
            if self.is_full() {
                return;
            }
            check(item, &mut self.item(at));
        }
    }

    /// Adds a problem at this path. An empty hint means no hint.
    fn add(&mut self, code: &'static str, message: impl Into<String>, hint: impl Into<String>) {
        if !self.is_full() {
            self.problems.push(Problem::new(code, self.path.clone(), message, hint));
        }
    }

    fn is_full(&self) -> bool {
        self.problems.len() >= MAX_PROBLEMS
    }
}
