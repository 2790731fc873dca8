//! Policies as files: YAML in, a checked policy or a list of what is wrong out.
//!
//! The file becomes a small tree in which every value knows its place
//! (`compose`), the tree is read member by member into the model (`reader`),
//! and the model is checked like any other. What is wrong is told all at once,
//! each with its line and a caret.

mod compose;
mod diagnostic;
mod document;
mod findings;
mod load;
mod reader;
mod schema;
mod tree;

use std::path::Path;

pub use diagnostic::{Diagnostic, Report, Severity};
pub use document::{Document, DocumentPlace, DocumentValue, Mistake};
pub use load::{LoadError, NamedFile, load};
pub use schema::json_schema;

use crate::check::{self, codes};
use crate::problem::CheckedPolicy;
use crate::problem::Problem;
use findings::{Findings, Source, Span};
use reader::{Broken, Read};
use tree::{Node, span_of};

/// A million rules would fit, and nobody writes them.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// A policy that was read and checked.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The policy.
    pub policy: CheckedPolicy,
    /// What is legal but likely wrong.
    pub warnings: Vec<Diagnostic>,
    /// The files that it names and that were read with it: where one changes, so does the policy.
    pub files: Vec<NamedFile>,
}

/// Reads and checks a policy out of a text.
///
/// `file_name` is what messages call it. Files that the policy names are
/// looked for in `base_dir`; without one, naming a file is an error.
pub fn parse(text: &str, file_name: &str, base_dir: Option<&Path>) -> Result<Loaded, Report> {
    let text = text_of(text, file_name)?;
    let source = Source::new(file_name, text);
    let mut findings = Findings::default();
    let Some(root) = root_of(text, &mut findings) else { return Err(findings.into_report(&source)) };
    let Read { policy, broken, files } = reader::read(&root, base_dir, &mut findings);
    let was_read = findings.is_empty();
    let errors = check::errors(&policy).into_iter().filter(|problem| !is_consequence(problem, broken));
    tell(errors, &root, &mut findings);
    if !findings.is_empty() {
        // What is missing because it could not be read is no reason to warn.
        let warnings = if was_read { check::warnings(&policy) } else { Vec::new() };
        let warnings = warnings_in(&source, &warnings, &root);
        return Err(Report { files, warnings, ..findings.into_report(&source) });
    }
    match policy.check() {
        Ok(policy) => Ok(Loaded { warnings: warnings_in(&source, policy.warnings(), &root), policy, files }),
        Err(errors) => {
            tell(errors.0, &root, &mut findings);
            Err(Report { files, ..findings.into_report(&source) })
        }
    }
}

/// The text of a file, unless it is too large. Some editors put a byte order mark first, which is no part of it.
fn text_of<'t>(text: &'t str, file_name: &str) -> Result<&'t str, Report> {
    if text.len() as u64 > MAX_FILE_BYTES {
        let mut findings = Findings::default();
        let message = "the file is larger than 4 MiB, which no policy needs to be";
        let hint = "tiers of many clients go into a `file:` of their own";
        findings.error(codes::FILE_TOO_LARGE, START, message, hint);
        return Err(findings.into_report(&Source::new(file_name, "")));
    }
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// The file as a tree, unless there is none or nothing in it.
fn root_of(text: &str, findings: &mut Findings) -> Option<Node> {
    let root = compose::compose(text, findings);
    let root = root.filter(|root| !root.scalar().is_some_and(|scalar| scalar.is_null()));
    if root.is_none() && findings.is_empty() {
        let hint = "a policy begins with `version: 1`, followed by `rules:`";
        findings.error(codes::EMPTY_FILE, START, "the file says nothing", hint);
    }
    root
}

/// Finds the places of what the model's checks have found.
fn tell(problems: impl IntoIterator<Item = Problem>, root: &Node, findings: &mut Findings) {
    for problem in problems {
        let span = span_of(root, &problem.place);
        findings.error(problem.code, span, problem.message, problem.hint.unwrap_or_default());
    }
}

/// Whether something is wrong only because a part that it needs could not be read.
fn is_consequence(problem: &Problem, broken: Broken) -> bool {
    match problem.code {
        codes::TIERS_WITHOUT_TIER | codes::DEFAULT_TIER_MISSING => broken.tier,
        codes::JWT_WITHOUT_KEY => broken.jwt,
        // Where the tier alone is broken, only one that says that the tier is unknown.
        codes::UNKNOWN_IDENTITY => broken.identities || (broken.tier && problem.message.contains("`tier`")),
        _ => false,
    }
}

fn warnings_in(source: &Source<'_>, problems: &[Problem], root: &Node) -> Vec<Diagnostic> {
    let told =
        |problem: &Problem| source.diagnostic(Severity::Warning, problem.clone(), span_of(root, &problem.place), &[]);
    let mut warnings: Vec<Diagnostic> = problems.iter().map(told).collect();
    warnings.sort_by_key(|warning| (warning.line, warning.column));
    warnings
}

const START: Span = Span { line: 1, column: 1, width: 1 };
