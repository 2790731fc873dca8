//! What was found wrong while reading, in the order in which it was found.

use std::collections::HashSet;

use super::diagnostic::{Diagnostic, Said, Severity};
use super::source::{Source, Span};

/// Nobody reads more, and a hostile file shall not make us write more.
const MAX_FINDINGS: usize = 100;

#[derive(Default)]
pub(super) struct Findings {
    list: Vec<Finding>,
    /// An alias repeats what is wrong with the value that it stands for.
    known: HashSet<(Span, &'static str, String)>,
    omitted: usize,
}

struct Finding {
    said: Said,
    span: Span,
    elsewhere: Option<OtherLine>,
}

/// A line of another file than the policy.
pub(super) struct OtherLine {
    pub(super) file: String,
    pub(super) text: String,
}

impl Findings {
    /// Says what is wrong at a place; an empty hint is none.
    pub(super) fn error(
        &mut self,
        code: &'static str,
        span: Span,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.push(code, span, message.into(), hint.into(), None);
    }

    /// The same, at a place in another file.
    pub(super) fn error_in(
        &mut self,
        other: OtherLine,
        code: &'static str,
        span: Span,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.push(code, span, message.into(), hint.into(), Some(other));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether more would not be shown.
    pub(super) fn is_full(&self) -> bool {
        self.list.len() >= MAX_FINDINGS
    }

    /// All of them by their place in the file, and how many more there are.
    pub(super) fn into_diagnostics(mut self, file: &str, source: &Source<'_>) -> (Vec<Diagnostic>, usize) {
        self.list.sort_by_key(|finding| (finding.span.line, finding.span.column));
        let shown = self.list.into_iter().map(|Finding { said, span, elsewhere }| match elsewhere {
            Some(other) => Diagnostic::new(said, &other.file, span, &other.text),
            None => Diagnostic::new(said, file, span, source.line(span.line)),
        });
        (shown.collect(), self.omitted)
    }

    fn push(&mut self, code: &'static str, span: Span, message: String, hint: String, elsewhere: Option<OtherLine>) {
        if self.is_full() {
            self.omitted += 1;
        } else if self.known.insert((span, code, message.clone())) {
            let hint = Some(hint).filter(|hint| !hint.is_empty());
            let said = Said { severity: Severity::Error, code, message, hint };
            self.list.push(Finding { said, span, elsewhere });
        }
    }
}
