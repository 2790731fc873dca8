//! What was found wrong while reading, in the order in which it was found.

use std::borrow::Cow;
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
    /// What no message may show, whatever it is about.
    secrets: Vec<Span>,
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

    /// All of them by their place in the file, and how many more there are.
    pub(super) fn into_diagnostics(mut self, file: &str, source: &Source<'_>) -> (Vec<Diagnostic>, usize) {
        self.list.sort_by_key(|finding| (finding.span.line, finding.span.column));
        let secrets = self.secrets;
        let shown = self.list.into_iter().map(|Finding { said, span, elsewhere }| match elsewhere {
            Some(other) => Diagnostic::new(said, &other.file, span, &other.text),
            None => {
                let span = source.within(span);
                Diagnostic::new(said, file, span, &hidden(source.line(span.line), span.line, &secrets))
            }
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
