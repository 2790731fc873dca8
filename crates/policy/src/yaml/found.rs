//! What was found wrong while reading, in the order in which it was found.

use std::collections::HashSet;

use super::diagnostic::{Diagnostic, Report, Severity};
use super::source::{Source, Span};
use crate::problem::{Place, Problem};

/// Nobody reads more, and a hostile file shall not make us write more.
const MAX_FINDINGS: usize = 100;

#[derive(Default)]
pub(super) struct Findings {
    list: Vec<Finding>,
    /// An alias repeats what is wrong with the value that it stands for.
    known: HashSet<(Span, &'static str, String)>,
    omitted: usize,
    /// What no message may show, whatever it is about.
    secrets: Vec<Span>,
}

struct Finding {
    problem: Problem,
    span: Span,
    /// The file, if it is another than the policy.
    elsewhere: Option<String>,
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

    /// The same, at a place in another file. Its line is not shown: it may have an API key in it, and messages go to
    /// logs and over HTTP.
    pub(super) fn error_in(&mut self, file: &str, code: &'static str, span: Span, message: &str, hint: &str) {
        self.push(code, span, message.to_owned(), hint.to_owned(), Some(file.to_owned()));
    }

    /// Keeps a value out of every message.
    pub(super) fn hide(&mut self, secret: Span) {
        self.secrets.push(secret);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether more would not be shown.
    pub(super) fn is_full(&self) -> bool {
        self.list.len() >= MAX_FINDINGS
    }

    /// All of them by their place in the file.
    pub(super) fn into_report(mut self, source: &Source<'_>) -> Report {
        self.list.sort_by_key(|finding| (finding.span.line, finding.span.column));
        let told = |Finding { problem, span, elsewhere }| match elsewhere {
            Some(file) => Diagnostic::new(Severity::Error, problem, &file, span, "…"),
            None => source.diagnostic(Severity::Error, problem, span, &self.secrets),
        };
        let errors = self.list.into_iter().map(told).collect();
        Report { errors, warnings: Vec::new(), omitted: self.omitted, files: Vec::new() }
    }

    fn push(&mut self, code: &'static str, span: Span, message: String, hint: String, elsewhere: Option<String>) {
        if self.is_full() {
            self.omitted += 1;
        } else if self.known.insert((span, code, message.clone())) {
            self.list.push(Finding { problem: Problem::new(code, Place::top(), message, hint), span, elsewhere });
        }
    }
}
