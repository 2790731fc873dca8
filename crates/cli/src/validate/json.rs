//! The answer of `validate` as JSON.

use serde::Serialize;
use tollgate::policy::promise::promises;
use tollgate::policy::{CounterChange, Diagnostic, Loaded, Report};
use tollgate_server::PromiseBody;

#[derive(Serialize)]
pub(super) struct Body {
    file: String,
    valid: bool,
    errors: Vec<Message>,
    /// How many more errors there are than are told.
    omitted: usize,
    warnings: Vec<Message>,
    rules: Vec<PromiseBody>,
    /// What does not go on where this policy takes the place of another.
    #[serde(skip_serializing_if = "Option::is_none")]
    counter_changes: Option<Vec<String>>,
}

#[derive(Serialize)]
struct Message {
    code: &'static str,
    file: String,
    line: usize,
    column: usize,
    width: usize,
    message: String,
    hint: Option<String>,
    source_line: String,
}

pub(super) fn valid(file: String, loaded: &Loaded, changes: Option<&[CounterChange]>) -> Body {
    Body {
        file,
        valid: true,
        errors: Vec::new(),
        omitted: 0,
        warnings: loaded.warnings.iter().map(Message::from).collect(),
        rules: promises(&loaded.policy).iter().map(PromiseBody::from).collect(),
        counter_changes: changes.map(|changes| changes.iter().map(ToString::to_string).collect()),
    }
}

pub(super) fn invalid(file: String, report: &Report) -> Body {
    Body {
        file,
        valid: false,
        errors: report.errors.iter().map(Message::from).collect(),
        omitted: report.omitted,
        warnings: report.warnings.iter().map(Message::from).collect(),
        rules: Vec::new(),
        counter_changes: None,
    }
}

impl From<&Diagnostic> for Message {
    fn from(diagnostic: &Diagnostic) -> Message {
        Message {
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
