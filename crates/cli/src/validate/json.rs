//! The result of `validate` as JSON.

use serde::Serialize;
use tollgate::policy::promise::promises;
use tollgate::policy::{CounterChange, Diagnostic, Loaded, Report};
use tollgate_server::PromiseBody;

#[derive(Serialize)]
pub(super) struct ValidationJson {
    file: String,
    valid: bool,
    errors: Vec<DiagnosticJson>,
    /// The number of errors that are not listed.
    omitted: usize,
    warnings: Vec<DiagnosticJson>,
    notes: Vec<DiagnosticJson>,
    /// Warnings and notes that the policy accepts.
    accepted: Vec<DiagnosticJson>,
    rules: Vec<PromiseBody>,
    /// The counters that do not continue if this policy replaces another.
    #[serde(skip_serializing_if = "Option::is_none")]
    counter_changes: Option<Vec<String>>,
}

#[derive(Serialize)]
struct DiagnosticJson {
    code: &'static str,
    file: String,
    line: usize,
    column: usize,
    width: usize,
    message: String,
    hint: Option<String>,
    source_line: String,
}

pub(super) fn valid(file: String, loaded: &Loaded, changes: Option<&[CounterChange]>) -> ValidationJson {
    ValidationJson {
        file,
        valid: true,
        errors: Vec::new(),
        omitted: 0,
        warnings: loaded.warnings.iter().map(DiagnosticJson::from).collect(),
        notes: loaded.notes.iter().map(DiagnosticJson::from).collect(),
        accepted: loaded.accepted.iter().map(DiagnosticJson::from).collect(),
        rules: promises(&loaded.policy).iter().map(PromiseBody::from).collect(),
        counter_changes: changes.map(|changes| changes.iter().map(ToString::to_string).collect()),
    }
}

pub(super) fn invalid(file: String, report: &Report) -> ValidationJson {
    ValidationJson {
        file,
        valid: false,
        errors: report.errors.iter().map(DiagnosticJson::from).collect(),
        omitted: report.omitted,
        warnings: report.warnings.iter().map(DiagnosticJson::from).collect(),
        notes: Vec::new(),
        accepted: Vec::new(),
        rules: Vec::new(),
        counter_changes: None,
    }
}

impl From<&Diagnostic> for DiagnosticJson {
    fn from(diagnostic: &Diagnostic) -> DiagnosticJson {
        DiagnosticJson {
            code: diagnostic.code,
            file: diagnostic.file.clone(),
            line: diagnostic.line,
            column: diagnostic.column,
            width: diagnostic.width,
            message: diagnostic.message.clone(),
            hint: diagnostic.hint.clone(),
            source_line: diagnostic.source_line.clone(),
        }
    }
}
