//! Results for people: headings, each with a table of names and values.

use std::fmt::Write;

use crate::colours::Colours;
use crate::workbench::table::printable;

/// Appends a heading and a table of names and values.
pub(crate) fn push_block<N: AsRef<str>>(page: &mut String, heading: &str, lines: &[(N, String)]) {
    push_line(page, format_args!("{}", Colours::of_stdout().heading(heading)));
    let width = lines.iter().map(|(name, _)| name.as_ref().chars().count()).max().unwrap_or(0);
    for (name, value) in lines {
        push_line(page, format_args!("  {:width$}  {}", name.as_ref(), printable(value)));
    }
}

/// Appends a line.
pub(crate) fn push_line(page: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(page, "{line}");
}
