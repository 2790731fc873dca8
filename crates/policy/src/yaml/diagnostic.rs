//! Errors, warnings and notes about a file, with an excerpt of the line.

use std::fmt;

use super::NamedFile;
use super::findings::TextSpan;
use crate::check::words::printable;
use crate::problem::Problem;

/// An error, warning or note about a file, with the line that it is about.
///
/// It displays as a block of lines, without a final line end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostic {
    /// Whether it is an error, a warning or a note.
    pub severity: Severity,
    /// The code, under which `docs/policy-messages.md` and `tollgate message` explain it. Empty for a file that is not a
    /// policy.
    pub code: &'static str,
    /// The name of the file.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The character in the line, counted from 1.
    pub column: usize,
    /// The number of characters that it is about, at least 1.
    pub width: usize,
    /// The text of the line, safe for a terminal: a long line is cut around the column, and control characters are
    /// replaced.
    pub source_line: String,
    /// What is wrong, and what was expected.
    pub message: String,
    /// How to repair it; several lines are several hints.
    pub hint: Option<String>,
    /// The terminal columns before the carets and under them.
    carets: (usize, usize),
}

/// The severity of a [`Diagnostic`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The file is refused.
    Error,
    /// The file is accepted, but likely has a mistake.
    Warning,
    /// The file is accepted; the message is for information.
    Note,
}

/// The errors and warnings of a file that is refused. It displays as blocks with an empty line between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The errors; never empty.
    pub errors: Vec<Diagnostic>,
    /// The warnings, as far as they can be determined.
    pub warnings: Vec<Diagnostic>,
    /// The number of further errors that are not listed.
    pub omitted: usize,
    /// The files that the file names, including those that could not be read. A change of one may resolve errors.
    pub files: Vec<NamedFile>,
}

/// The most characters of a line that are shown, and how many of them are before the column.
const MAX_SHOWN: usize = 100;
const SHOWN_BEFORE: usize = 40;

impl Diagnostic {
    pub(super) fn new(severity: Severity, problem: Problem, file: &str, span: TextSpan, line: &str) -> Diagnostic {
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

    /// Changes the severity to a note.
    pub(super) fn into_note(self) -> Diagnostic {
        Diagnostic { severity: Severity::Note, ..self }
    }
}

/// Returns the shown part of a line, and the terminal columns before the carets and under them.
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
        // A tab becomes one space, so that the caret stays aligned.
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

/// The number of terminal columns of a character: two for wide East Asian characters and emoji.
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
            Severity::Note => "note",
        })
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file: String = self.file.chars().map(printable).collect();
        write!(f, "{file}:{}:{}: {}: {}", self.line, self.column, self.severity, self.message)?;
        if !self.code.is_empty() {
            write!(f, " [{}]", self.code)?;
        }
        if !self.source_line.is_empty() {
            let number = self.line.to_string();
            let (before, under) = self.carets;
            write!(f, "\n  {number} | {}", self.source_line)?;
            write!(f, "\n  {:margin$} | {:before$}^{}", "", "", "~".repeat(under - 1), margin = number.len())?;
        }
        for hint in self.hint.iter().flat_map(|hints| hints.lines()) {
            write!(f, "\nhint: {hint}")?;
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
    use crate::problem::PolicyPath;

    fn shown(line: &str, column: usize, width: usize) -> String {
        let problem = Problem::new("x", PolicyPath::top(), "wrong", "");
        Diagnostic::new(Severity::Error, problem, "f", TextSpan { line: 12, column, width }, line).to_string()
    }

    #[test]
    fn caret_is_under_the_column() {
        assert_eq!(shown("a: bcd", 4, 3), "f:12:4: error: wrong [x]\n  12 | a: bcd\n     |    ^~~");
        assert_eq!(shown("\ta: b", 5, 1), "f:12:5: error: wrong [x]\n  12 |  a: b\n     |     ^");
        assert_eq!(shown("名: b", 4, 1), "f:12:4: error: wrong [x]\n  12 | 名: b\n     |     ^", "a wide character");
        assert_eq!(shown("a:", 3, 0), "f:12:3: error: wrong [x]\n  12 | a:\n     |   ^", "after the end");
    }

    #[test]
    fn long_lines_are_cut_around_the_column() {
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
