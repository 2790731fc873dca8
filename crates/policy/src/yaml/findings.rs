//! What was found wrong while reading, and where in a file it stands.

use std::borrow::Cow;
use std::collections::HashSet;

use super::diagnostic::{Diagnostic, Report, Severity};
use crate::problem::{Place, Problem};

/// A longer report is not read, and a hostile file must not cause one.
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

/// A file that messages are about: what they call it, and its lines.
pub(super) struct Source<'t> {
    name: &'t str,
    lines: Vec<&'t str>,
}

/// A place in the text: line and column are counted from 1, all in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Span {
    pub(super) line: usize,
    pub(super) column: usize,
    pub(super) width: usize,
}

impl<'t> Source<'t> {
    pub(super) fn new(name: &'t str, text: &'t str) -> Source<'t> {
        // As YAML has it: a carriage return ends a line too, alone or before a line feed.
        let mut lines = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(['\n', '\r']) {
            lines.push(&rest[..at]);
            let after = &rest[at..];
            rest = after.strip_prefix("\r\n").unwrap_or(&after[1..]);
        }
        lines.push(rest);
        Source { name, lines }
    }

    /// The place, or the end of the text if it lies beyond: where a text ends
    /// too early, YAML's parser may point after it.
    fn within(&self, span: Span) -> Span {
        let line = span.line.clamp(1, self.lines.len());
        let end = self.line(line).chars().count() + 1;
        let column = if line == span.line { span.column.clamp(1, end) } else { end };
        Span { line, column, width: span.width.min(end - column).max(1) }
    }

    /// What people are told of a problem at a place in this file. Secrets in its line are not shown.
    pub(super) fn diagnostic(&self, severity: Severity, problem: Problem, at: Span, secrets: &[Span]) -> Diagnostic {
        let span = self.within(at);
        Diagnostic::new(severity, problem, self.name, span, &hidden(self.line(span.line), span.line, secrets))
    }

    /// All lines.
    pub(super) fn lines(&self) -> impl Iterator<Item = &'t str> {
        self.lines.iter().copied()
    }

    /// The line of this number, counted from 1; empty beyond the end.
    fn line(&self, number: usize) -> &'t str {
        number.checked_sub(1).and_then(|at| self.lines.get(at)).copied().unwrap_or_default()
    }
}

impl Span {
    /// The part of it that begins `offset` characters later.
    pub(super) fn from(self, offset: usize) -> Span {
        let offset = offset.min(self.width);
        Span { column: self.column + offset, width: (self.width - offset).max(1), ..self }
    }
}

/// The line with stars in place of secrets.
fn hidden<'l>(line: &'l str, number: usize, secrets: &[Span]) -> Cow<'l, str> {
    let is_secret = |at: usize| {
        let mut of_line = secrets.iter().filter(|secret| secret.line == number);
        of_line.any(|secret| (secret.column..secret.column + secret.width).contains(&(at + 1)))
    };
    if secrets.iter().all(|secret| secret.line != number) {
        return Cow::Borrowed(line);
    }
    line.chars().enumerate().map(|(at, c)| if is_secret(at) { '*' } else { c }).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_line_end_counts() {
        let source = Source::new("f", "a\nb\r\nc\rd");
        let lines: Vec<&str> = (0..=5).map(|number| source.line(number)).collect();
        assert_eq!(lines, ["", "a", "b", "c", "d", ""]);
    }

    #[test]
    fn no_place_lies_beyond_the_text() {
        let source = Source::new("f", "ab\ncde");
        let within = |line, column, width| {
            let span = source.within(Span { line, column, width });
            (span.line, span.column, span.width)
        };
        assert_eq!(within(2, 2, 2), (2, 2, 2));
        assert_eq!(within(2, 2, 9), (2, 2, 2));
        assert_eq!(within(1, 9, 1), (1, 3, 1));
        assert_eq!(within(3, 1, 1), (2, 4, 1));
    }
}
