//! Reads policies from YAML files.
//!
//! `compose` builds a tree in which every value has its position, `reader` reads the tree member by member into the
//! model, and the model is checked like any other. All errors are reported at once, each with its line and a caret.

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
pub use load::{LoadError, NamedFile, load, load_with};
pub use schema::json_schema;

use crate::check::{self, codes};
use crate::problem::CheckedPolicy;
use crate::problem::Problem;
use findings::{Findings, SourceText, TextSpan};
use reader::{ReadPolicy, UnreadParts};
use tree::{YamlNode, span_of};

/// The largest file that is read. It has space for many thousands of rules.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// What happens to a secret that is missing on this machine: an environment variable that is not set, or a key file that
/// does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingSecrets {
    /// The policy is refused, because a service that uses it needs the secret.
    #[default]
    Refuse,
    /// A random key replaces the secret, and [`Loaded::notes`] names it. For checking a policy on another machine than
    /// the one that runs it; such a policy cannot verify tokens.
    Skip,
}

/// A policy that was loaded and checked.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The policy.
    pub policy: CheckedPolicy,
    /// Settings that are valid but likely mistakes.
    pub warnings: Vec<Diagnostic>,
    /// Facts about the policy, for information.
    pub notes: Vec<Diagnostic>,
    /// The warnings and notes that the policy accepts by their codes.
    pub accepted: Vec<Diagnostic>,
    /// The files that the policy names and that were read with it. If one changes, the policy changes.
    pub files: Vec<NamedFile>,
    /// The text of the file.
    pub text: String,
}

/// Parses and checks a policy.
///
/// Messages call the text `file_name`. Names of files in the policy are relative to `base_dir`; without a `base_dir`,
/// naming a file is an error.
///
/// ```
/// let text = "version: 1\nrules:\n  - { name: per-ip, key: client_ip, limit: 60/min }\n";
/// let loaded = tollgate_policy::parse(text, "policy.yaml", None)?;
/// assert_eq!(loaded.policy.rules[0].name, "per-ip");
/// # Ok::<(), tollgate_policy::Report>(())
/// ```
pub fn parse(text: &str, file_name: &str, base_dir: Option<&Path>) -> Result<Loaded, Report> {
    parse_with(text, file_name, base_dir, MissingSecrets::Refuse)
}

/// Like [`parse`], with a choice for secrets that are missing on this machine.
pub fn parse_with(
    text: &str,
    file_name: &str,
    base_dir: Option<&Path>,
    missing: MissingSecrets,
) -> Result<Loaded, Report> {
    let text = text_of(text, file_name)?;
    let source = SourceText::new(file_name, text);
    let mut findings = Findings::default();
    let Some(root) = root_of(text, &mut findings) else { return Err(findings.into_report(&source)) };
    let ReadPolicy { policy, broken, files } = reader::read(&root, base_dir, missing, &mut findings);
    let was_read = findings.is_empty();
    let errors: Vec<Problem> =
        check::errors(&policy).into_iter().filter(|problem| !is_consequence(problem, broken)).collect();
    add(errors.iter().cloned(), &root, &mut findings);
    if !findings.is_empty() {
        // Parts that could not be read would cause wrong warnings.
        let mut warnings = if was_read { check::remarks(&policy).warnings } else { Vec::new() };
        // An accepted warning that does not occur may occur once the errors are repaired.
        warnings.retain(|warning| {
            warning.code != codes::UNUSED_ACCEPT && !errors.iter().any(|error| check::explains(error, warning))
        });
        let warnings = located(&source, &warnings, &root);
        return Err(Report { files, warnings, ..findings.into_report(&source) });
    }
    match policy.check() {
        Ok(policy) => {
            let mut warnings = located(&source, policy.warnings(), &root);
            let mut notes = findings.notes(&source);
            notes.extend(located(&source, policy.notes(), &root));
            if missing == MissingSecrets::Skip {
                // A password that is missing on this machine may exist where the policy is used.
                let is_password = |warning: &mut Diagnostic| warning.code == codes::MISSING_PASSWORD;
                notes.extend(warnings.extract_if(.., is_password).map(Diagnostic::into_note));
            }
            let mut accepted = located(&source, policy.accepted(), &root);
            accepted.extend(notes.extract_if(.., |note| policy.accept.iter().any(|code| code == note.code)));
            Ok(Loaded { policy, warnings, notes, accepted, files, text: text.to_owned() })
        }
        Err(errors) => {
            add(errors.0, &root, &mut findings);
            Err(Report { files, ..findings.into_report(&source) })
        }
    }
}

/// Returns the text without a byte order mark, which some editors add, or an error if it is too large.
fn text_of<'t>(text: &'t str, file_name: &str) -> Result<&'t str, Report> {
    if text.len() as u64 > MAX_FILE_BYTES {
        let mut findings = Findings::default();
        let message = "the file is larger than 4 MiB, the limit for policy files";
        let hint = "move the tiers of many clients to a separate file, named by `file:` under `tier`";
        findings.error(codes::FILE_TOO_LARGE, START, message, hint);
        return Err(findings.into_report(&SourceText::new(file_name, "")));
    }
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// Builds the tree of a file. Reports a file without content.
fn root_of(text: &str, findings: &mut Findings) -> Option<YamlNode> {
    let root = compose::compose(text, findings);
    let root = root.filter(|root| !root.scalar().is_some_and(|scalar| scalar.is_null()));
    if root.is_none() && findings.is_empty() {
        let hint = "begin with `version: 1`, followed by `rules:`";
        findings.error(codes::EMPTY_FILE, START, "the file has no content", hint);
    }
    root
}

/// Adds problems of the model as errors at their positions in the file.
fn add(problems: impl IntoIterator<Item = Problem>, root: &YamlNode, findings: &mut Findings) {
    for problem in problems {
        let span = span_of(root, &problem.path);
        findings.error(problem.code, span, problem.message, problem.hint.unwrap_or_default());
    }
}

/// Whether a problem only follows from a part that could not be read.
fn is_consequence(problem: &Problem, broken: UnreadParts) -> bool {
    match problem.code {
        codes::TIERS_WITHOUT_TIER | codes::DEFAULT_TIER_MISSING => broken.tier,
        codes::JWT_WITHOUT_KEY => broken.jwt,
        codes::MISSING_REGIONS => broken.regions,
        // If only the tier could not be read, this applies to messages about the unknown tier.
        codes::UNKNOWN_IDENTITY => broken.identities || (broken.tier && problem.message.contains("`tier`")),
        _ => false,
    }
}

/// Returns warnings and notes with their positions in the file, sorted by position.
fn located(source: &SourceText<'_>, problems: &[Problem], root: &YamlNode) -> Vec<Diagnostic> {
    let diagnostic = |problem: &Problem| {
        let severity = if codes::NOTE_CODES.contains(&problem.code) { Severity::Note } else { Severity::Warning };
        source.diagnostic(severity, problem.clone(), span_of(root, &problem.path), &[])
    };
    let mut located: Vec<Diagnostic> = problems.iter().map(diagnostic).collect();
    located.sort_by_key(|diagnostic| (diagnostic.line, diagnostic.column));
    located
}

const START: TextSpan = TextSpan { line: 1, column: 1, width: 1 };
