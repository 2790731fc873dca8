//! Policies as files: YAML in, a checked policy or a list of what is wrong out.
//!
//! The file becomes a small tree in which every value knows its place
//! (`compose`), the tree is read member by member into the model (`reader`),
//! and the model is checked like any other. What is wrong is told all at once,
//! each with its line and a caret.

mod compose;
mod diagnostic;
mod document;
mod found;
mod json;
mod load;
mod named_file;
mod places;
mod reader;
mod report;
mod schema;
mod shape;
mod source;
mod tree;

use std::path::Path;

pub use diagnostic::{Diagnostic, Severity};
pub use document::{Document, DocumentPlace, DocumentValue, Mistake};
pub use load::{LoadError, load};
pub use named_file::NamedFile;
pub use report::Report;
pub use schema::json_schema;

use crate::check::{self, codes};
use crate::checked::CheckedPolicy;
use crate::problem::Problem;
use diagnostic::Said;
use found::Findings;
use reader::{Broken, Read};
use source::{Source, Span};
use tree::Node;

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
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(too_large(file_name));
    }
    // Some editors put a byte order mark first. It is no part of the text.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let file = File { name: file_name, source: Source::new(text) };
    let mut findings = Findings::default();
    let Some(root) = root_of(text, &mut findings) else { return Err(file.report(findings, Vec::new())) };
    let Read { policy, broken, files } = reader::read(&root, base_dir, &mut findings);
    let was_read = findings.is_empty();
    let errors = check::errors(&policy).into_iter().filter(|problem| !is_consequence(problem, broken));
    tell(errors, &root, &mut findings);
    if !findings.is_empty() {
        // What is missing because it could not be read is no reason to warn.
        let warnings = if was_read { check::warnings(&policy) } else { Vec::new() };
        return Err(Report { files, ..file.report(findings, file.warnings(&warnings, &root)) });
    }
    match policy.check() {
        Ok(policy) => Ok(Loaded { warnings: file.warnings(policy.warnings(), &root), policy, files }),
        Err(errors) => {
            tell(errors.0, &root, &mut findings);
            Err(Report { files, ..file.report(findings, Vec::new()) })
        }
    }
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
        let span = places::span_of(root, &problem.place);
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

/// What messages are about.
struct File<'f> {
    name: &'f str,
    source: Source<'f>,
}

impl File<'_> {
    fn report(&self, findings: Findings, warnings: Vec<Diagnostic>) -> Report {
        let (errors, omitted) = findings.into_diagnostics(self.name, &self.source);
        Report { errors, warnings, omitted, files: Vec::new() }
    }

    fn warnings(&self, problems: &[Problem], root: &Node) -> Vec<Diagnostic> {
        let mut warnings: Vec<Diagnostic> = problems.iter().map(|problem| self.warning(problem, root)).collect();
        warnings.sort_by_key(|warning| (warning.line, warning.column));
        warnings
    }

    fn warning(&self, problem: &Problem, root: &Node) -> Diagnostic {
        let span = self.source.within(places::span_of(root, &problem.place));
        let (message, hint) = (problem.message.clone(), problem.hint.clone());
        let said = Said { severity: Severity::Warning, code: problem.code, message, hint };
        Diagnostic::new(said, self.name, span, self.source.line(span.line))
    }
}

const START: Span = Span { line: 1, column: 1, width: 1 };

fn too_large(file: &str) -> Report {
    let mut findings = Findings::default();
    let hint = "tiers of many clients go into a `file:` of their own";
    findings.error(codes::FILE_TOO_LARGE, START, "the file is larger than 4 MiB, which no policy needs to be", hint);
    File { name: file, source: Source::new("") }.report(findings, Vec::new())
}
