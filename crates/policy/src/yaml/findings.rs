//! The errors found while reading a file, with their positions.

use std::borrow::Cow;
use std::collections::HashSet;

use super::diagnostic::{Diagnostic, Report, Severity};
use crate::check::words::quoted;
use crate::check::{codes, rate_hint};
use crate::problem::{PolicyPath, Problem};

/// The most errors that a report lists. It also bounds the report of a hostile file.
const MAX_FINDINGS: usize = 100;

#[derive(Default)]
pub(super) struct Findings {
    list: Vec<Finding>,
    /// Errors that were added already: an alias would repeat those of its value.
    known: HashSet<(TextSpan, &'static str, String)>,
    omitted: usize,
    /// The spans of secrets, which no message shows.
    secrets: Vec<TextSpan>,
    /// Parts of the policy that were not checked.
    notes: Vec<Finding>,
}

struct Finding {
    problem: Problem,
    span: TextSpan,
    /// The file, if it is not the policy.
    elsewhere: Option<String>,
}

impl Findings {
    /// Adds an error. An empty hint means no hint.
    pub(super) fn error(
        &mut self,
        code: &'static str,
        span: TextSpan,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.push(code, span, message.into(), hint.into(), None);
    }

    /// Adds a note about a part that was not checked. The policy is accepted.
    pub(super) fn note(&mut self, code: &'static str, span: TextSpan, message: String, hint: &str) {
        let problem = Problem::new(code, PolicyPath::top(), message, hint);
        self.notes.push(Finding { problem, span, elsewhere: None });
    }

    /// Returns the notes, in the order in which they were added.
    pub(super) fn notes(&self, source: &SourceText<'_>) -> Vec<Diagnostic> {
        let note = |note: &Finding| source.diagnostic(Severity::Note, note.problem.clone(), note.span, &self.secrets);
        self.notes.iter().map(note).collect()
    }

    /// Adds an error in another file. Its line is not shown: it may contain an API key, and messages go to logs and
    /// over HTTP.
    pub(super) fn error_in(&mut self, file: &str, code: &'static str, span: TextSpan, message: &str, hint: &str) {
        self.push(code, span, message.to_owned(), hint.to_owned(), Some(file.to_owned()));
    }

    /// Hides a value in all messages.
    pub(super) fn hide(&mut self, secret: TextSpan) {
        self.secrets.push(secret);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether further errors are only counted.
    pub(super) fn is_full(&self) -> bool {
        self.list.len() >= MAX_FINDINGS
    }

    /// Returns the report, sorted by position.
    pub(super) fn into_report(mut self, source: &SourceText<'_>) -> Report {
        self.list.sort_by_key(|finding| (finding.span.line, finding.span.column));
        self.join_split_numbers(source);
        let diagnostic = |Finding { problem, span, elsewhere }| match elsewhere {
            Some(file) => Diagnostic::new(Severity::Error, problem, &file, span, "…"),
            None => source.diagnostic(Severity::Error, problem, span, &self.secrets),
        };
        let errors = self.list.into_iter().map(diagnostic).collect();
        Report { errors, warnings: Vec::new(), omitted: self.omitted, files: Vec::new() }
    }

    /// Replaces the errors about each number with thousands separators, as in `{ limit: 1,000/min }`, by one about the
    /// separators: in a flow list or map, a comma ends a value.
    fn join_split_numbers(&mut self, source: &SourceText<'_>) {
        let mut joined: Vec<TextSpan> = Vec::new();
        self.list.retain_mut(|finding| {
            if finding.elsewhere.is_some() {
                return true;
            }
            let (code, span) = (finding.problem.code, finding.span);
            let covers = |number: &TextSpan| {
                // The missing value of a member is after a space.
                let end = number.column + number.width + usize::from(code == codes::WRONG_TYPE);
                number.line == span.line && (number.column..=end).contains(&span.column)
            };
            if joined.last().is_some_and(covers) {
                return false;
            }
            let is_cut = match code {
                codes::BAD_RATE => {
                    finding.problem.hint.as_ref().is_some_and(|hint| hint.starts_with(rate_hint::ADD_PERIOD))
                }
                codes::UNKNOWN_MEMBER => true,
                _ => false,
            };
            let Some((number, text)) = source.split_number(span).filter(|_| is_cut) else { return true };
            let code = if text.contains('/') || text.contains("per") { codes::BAD_RATE } else { codes::WRONG_TYPE };
            let message = format!("{} has thousands separators, and a comma ends a value here", quoted(&text));
            let hint = format!("write {}", text.replace(',', ""));
            finding.problem = Problem::new(code, PolicyPath::top(), message, hint);
            finding.span = number;
            joined.push(number);
            true
        });
    }

    fn push(&mut self, code: &'static str, span: TextSpan, message: String, hint: String, elsewhere: Option<String>) {
        if self.is_full() {
            self.omitted += 1;
        } else if self.known.insert((span, code, message.clone())) {
            self.list.push(Finding { problem: Problem::new(code, PolicyPath::top(), message, hint), span, elsewhere });
        }
    }
}

/// The name and the lines of a file.
pub(super) struct SourceText<'t> {
    name: &'t str,
    lines: Vec<&'t str>,
}

/// A range within one line. Line and column count from 1; column and width are in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TextSpan {
    pub(super) line: usize,
    pub(super) column: usize,
    pub(super) width: usize,
}

impl<'t> SourceText<'t> {
    pub(super) fn new(name: &'t str, text: &'t str) -> SourceText<'t> {
        // As in YAML, a carriage return ends a line too, alone or before a line feed.
        let mut lines = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(['\n', '\r']) {
            lines.push(&rest[..at]);
            let after = &rest[at..];
            rest = after.strip_prefix("\r\n").unwrap_or(&after[1..]);
        }
        lines.push(rest);
        SourceText { name, lines }
    }

    /// Clamps a span to the text. The YAML parser may point after the end of a text that ends too early.
    fn within(&self, span: TextSpan) -> TextSpan {
        let line = span.line.clamp(1, self.lines.len());
        let end = self.line(line).chars().count() + 1;
        let column = if line == span.line { span.column.clamp(1, end) } else { end };
        TextSpan { line, column, width: span.width.min(end - column).max(1) }
    }

    /// Builds the diagnostic of a problem in this file. Secrets in its line are hidden.
    pub(super) fn diagnostic(
        &self,
        severity: Severity,
        problem: Problem,
        at: TextSpan,
        secrets: &[TextSpan],
    ) -> Diagnostic {
        let span = self.within(at);
        let problem = self.with_variable_hint(problem, span);
        Diagnostic::new(severity, problem, self.name, span, &hidden(self.line(span.line), span.line, secrets))
    }

    /// Adds a hint to a problem with a value such as `${NAME}`: policies have no variables.
    fn with_variable_hint(&self, mut problem: Problem, span: TextSpan) -> Problem {
        let value: String = self.line(span.line).chars().skip(span.column - 1).take(span.width).collect();
        let Some(name) = variable_in(&value) else { return problem };
        let hint = match problem.code {
            codes::MISSING_SECRET | codes::MISSING_PASSWORD => {
                format!("write the name of the variable alone: {name}")
            }
            _ => "variables are not expanded in a policy: write the value itself; for secrets, `key_env` and `password_env` name an environment variable".to_owned(),
        };
        problem.hint = Some(match problem.hint {
            Some(other) => format!("{hint}\n{other}"),
            None => hint,
        });
        problem
    }

    /// Returns the number with thousands separators around the position of a span, with the text that follows it up to
    /// the next comma or bracket.
    fn split_number(&self, span: TextSpan) -> Option<(TextSpan, String)> {
        let chars: Vec<char> = self.line(span.line).chars().collect();
        let is_of_number = |at: usize| chars.get(at).is_some_and(|c| c.is_ascii_digit() || *c == ',');
        let at = span.column.checked_sub(1)?;
        let start = (0..=at).rev().take_while(|at| is_of_number(*at)).last()?;
        let end = (at..chars.len()).take_while(|at| is_of_number(*at)).last()? + 1;
        let number: String = chars[start..end].iter().collect();
        let mut groups = number.trim_end_matches(',').split(',');
        let has_first = groups.next().is_some_and(|first| (1..=3).contains(&first.len()));
        let (rest, others) = (groups.clone(), groups.count());
        if !has_first || others == 0 || rest.into_iter().any(|group| group.len() != 3) {
            return None;
        }
        let after: String =
            chars[end..].iter().take_while(|c| !matches!(c, ',' | '}' | ']' | '{' | '[' | ':')).collect();
        let text =
            if number.ends_with(',') { number.trim_end_matches(',').to_owned() } else { number + after.trim_end() };
        Some((TextSpan { column: start + 1, width: text.chars().count(), ..span }, text))
    }

    /// All lines.
    pub(super) fn lines(&self) -> impl Iterator<Item = &'t str> {
        self.lines.iter().copied()
    }

    /// The line with this number, counted from 1; empty beyond the end.
    fn line(&self, number: usize) -> &'t str {
        number.checked_sub(1).and_then(|at| self.lines.get(at)).copied().unwrap_or_default()
    }
}

impl TextSpan {
    /// The part of the span that begins `offset` characters later.
    pub(super) fn from(self, offset: usize) -> TextSpan {
        let offset = offset.min(self.width);
        TextSpan { column: self.column + offset, width: (self.width - offset).max(1), ..self }
    }
}

/// The name of the first variable in a value, as in `${NAME}`, `{{ NAME }}` or `$NAME`.
fn variable_in(value: &str) -> Option<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let braced = value.find("${").map(|at| &value[at + 2..]);
    let template = || value.find("{{").map(|at| value[at + 2..].trim_start());
    let plain = || value.trim_start_matches(['"', '\'']).strip_prefix('$');
    let rest = braced.or_else(template).or_else(plain)?;
    let name = &rest[..rest.find(|c| !is_name(c)).unwrap_or(rest.len())];
    (!name.is_empty()).then_some(name)
}

/// Replaces the secrets of a line by stars.
fn hidden<'l>(line: &'l str, number: usize, secrets: &[TextSpan]) -> Cow<'l, str> {
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
    fn all_line_ends_are_recognised() {
        let source = SourceText::new("f", "a\nb\r\nc\rd");
        let lines: Vec<&str> = (0..=5).map(|number| source.line(number)).collect();
        assert_eq!(lines, ["", "a", "b", "c", "d", ""]);
    }

    #[test]
    fn variables_are_found_in_values() {
        for (value, name) in [
            ("\"${LIMIT}/min\"", Some("LIMIT")),
            ("$LIMIT", Some("LIMIT")),
            ("{{ limit }}", Some("limit")),
            ("/a$", None),
            ("60/min", None),
        ] {
            assert_eq!(variable_in(value), name, "{value}");
        }
    }

    #[test]
    fn spans_are_clamped_to_the_text() {
        let source = SourceText::new("f", "ab\ncde");
        let within = |line, column, width| {
            let span = source.within(TextSpan { line, column, width });
            (span.line, span.column, span.width)
        };
        assert_eq!(within(2, 2, 2), (2, 2, 2));
        assert_eq!(within(2, 2, 9), (2, 2, 2));
        assert_eq!(within(1, 9, 1), (1, 3, 1));
        assert_eq!(within(3, 1, 1), (2, 4, 1));
    }
}
