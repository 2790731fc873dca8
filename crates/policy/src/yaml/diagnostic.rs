//! What people are told about a file.

use std::fmt;

use super::NamedFile;
use super::findings::Span;
use crate::check::words::printable;
use crate::problem::Problem;

/// Something wrong in a file, with the line that it is about.
///
/// Displayed as a block of lines, without a line end at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostic {
    /// Whether the file is refused for it.
    pub severity: Severity,
    /// Its short name, under which `docs/policy-messages.md` explains it.
    pub code: &'static str,
    /// The file's name.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The character in the line, counted from 1.
    pub column: usize,
    /// How many characters it is about, at least 1.
    pub width: usize,
    /// The line, fit for a terminal: cut around the place where it is long,
    /// and without control characters.
    pub source_line: String,
    /// What is wrong, and what was expected.
    pub message: String,
    /// How to repair it; several lines are several hints.
    pub hint: Option<String>,
    /// Where under the line the carets go, in columns of a terminal.
    carets: (usize, usize),
}

/// What becomes of a file for which something is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// It is refused.
    Error,
    /// It is accepted.
    Warning,
}

/// Everything that is wrong with a file. Displayed as blocks with an empty line between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What has to be repaired; never empty.
    pub errors: Vec<Diagnostic>,
    /// What is legal but likely wrong, as far as it can be told.
    pub warnings: Vec<Diagnostic>,
    /// How many more errors there are than are told.
    pub omitted: usize,
    /// The files that it names and that were read, or could not be: where one changes, there may be less that is wrong.
    pub files: Vec<NamedFile>,
}

/// The most of a line that is shown, and how much of it before the place, in characters.
const MAX_SHOWN: usize = 100;
const SHOWN_BEFORE: usize = 40;

impl Diagnostic {
    pub(super) fn new(severity: Severity, problem: Problem, file: &str, span: Span, line: &str) -> Diagnostic {
        let width = span.width.max(1);
        let (source_line, carets) = excerpt(line, span.column.saturating_sub(1), width);
        Diagnostic {
            severity,
            code: problem.code,
            file: file.to_owned(),
            line: span.line,
            column: span.column,
            width,
            source_line,
            message: problem.message.chars().map(printable).collect(),
            hint: problem.hint.map(|hint| hint.chars().map(|c| if c == '\n' { c } else { printable(c) }).collect()),
            carets,
        }
    }
}

/// What of a line is shown, and where under it the carets go.
fn excerpt(line: &str, at: usize, width: usize) -> (String, (usize, usize)) {
    let is_long = line.chars().nth(MAX_SHOWN).is_some();
    let skipped = if is_long { at.saturating_sub(SHOWN_BEFORE) } else { 0 };
    let mut shown = String::new();
    let (mut before, mut under) = (0, 0);
    if skipped > 0 {
        shown.push('…');
        before = 1;
    }
    for (position, c) in line.chars().enumerate().skip(skipped).take(MAX_SHOWN) {
        // A tab as one space keeps the caret where it belongs.
        let c = if c == '\t' { ' ' } else { printable(c) };
        shown.push(c);
        if position < at {
            before += columns(c);
        } else if position < at + width {
            under += columns(c);
        }
    }
    if line.chars().nth(skipped + MAX_SHOWN).is_some() {
        shown.push('…');
    }
    shown.truncate(shown.trim_end().len());
    (shown, (before, under.max(1)))
}

/// How many columns of a terminal a character takes: two for the wide scripts and pictures of East Asia.
fn columns(c: char) -> usize {
    match c {
        '\u{300}'..='\u{36f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1faff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        })
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file: String = self.file.chars().map(printable).collect();
        write!(f, "{file}:{}:{}: {}: {}", self.line, self.column, self.severity, self.message)?;
        if !self.source_line.is_empty() {
            let number = self.line.to_string();
            let (before, under) = self.carets;
            write!(f, "\n  {number} | {}", self.source_line)?;
            write!(f, "\n  {:margin$} | {:before$}^{}", "", "", "~".repeat(under - 1), margin = number.len())?;
        }
        for hint in self.hint.iter().flat_map(|hints| hints.lines()) {
            write!(f, "\nhint: {hint}")?;
        }
        if self.severity == Severity::Warning {
            write!(f, "\nexplained: docs/policy-messages.md#{}", self.code)?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, diagnostic) in self.errors.iter().chain(&self.warnings).enumerate() {
            if at > 0 {
                f.write_str("\n\n")?;
            }
            diagnostic.fmt(f)?;
        }
        match self.omitted {
            0 => Ok(()),
            1 => f.write_str("\n\nand 1 more error"),
            more => write!(f, "\n\nand {more} more errors"),
        }
    }
}

impl std::error::Error for Report {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Place;

    fn shown(line: &str, column: usize, width: usize) -> String {
        let problem = Problem::new("x", Place::top(), "wrong", "");
        Diagnostic::new(Severity::Error, problem, "f", Span { line: 12, column, width }, line).to_string()
    }

    #[test]
    fn the_caret_stands_under_the_place() {
        assert_eq!(shown("a: bcd", 4, 3), "f:12:4: error: wrong\n  12 | a: bcd\n     |    ^~~");
        assert_eq!(shown("\ta: b", 5, 1), "f:12:5: error: wrong\n  12 |  a: b\n     |     ^");
        assert_eq!(shown("名: b", 4, 1), "f:12:4: error: wrong\n  12 | 名: b\n     |     ^", "a wide character");
        assert_eq!(shown("a:", 3, 0), "f:12:3: error: wrong\n  12 | a:\n     |   ^", "after the end");
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let line = format!("{}bad{}", "x".repeat(10_000), "y".repeat(10_000));
        let text = shown(&line, 10_001, 3);
        assert!(text.len() < 400, "{text}");
        let lines: Vec<&str> = text.lines().collect();
        let at = lines[2].find('^').unwrap();
        let under: String = lines[1].chars().skip(at).take(3).collect();
        assert_eq!(under, "bad", "{text}");
        assert!(lines[1].ends_with('…'));
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let text = shown("a\u{1b}[31m\u{7}: b\u{202e}", 1, 1);
        assert!(text.chars().all(|c| c == '\n' || printable(c) == c), "{text:?}");
    }
}
