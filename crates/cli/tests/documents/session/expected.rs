//! Compares an output with the one that a page shows.

/// Whether a page that shows these lines describes the output. `..` within a line matches any text, and alone any lines.
/// In a line that does not match as a whole, two spaces and `#` begin a comment for the reader.
pub(super) fn matches(shown: &[&str], output: &[&str]) -> bool {
    match shown.split_first() {
        None => output.is_empty(),
        Some((line, rest)) if is_elision(line) => (0..=output.len()).any(|skipped| matches(rest, &output[skipped..])),
        Some((line, rest)) => {
            output.split_first().is_some_and(|(found, others)| matches_line(line, found) && matches(rest, others))
        }
    }
}

/// The lines of a text without spaces at their ends, and without empty lines at its end.
pub(super) fn lines(text: &str) -> Vec<&str> {
    text.trim_end().lines().map(str::trim_end).collect()
}

fn is_elision(line: &str) -> bool {
    matches!(line.trim(), ".." | "...")
}

fn matches_line(shown: &str, found: &str) -> bool {
    let shown = shown.trim_end();
    let without_comment = shown.split_once("  # ").map(|(shown, _)| shown.trim_end());
    matches_text(shown, found) || without_comment.is_some_and(|shown| matches_text(shown, found))
}

/// Compares texts of which one may have `..` for any text.
fn matches_text(shown: &str, found: &str) -> bool {
    let mut pieces = shown.split("..").map(|piece| piece.trim_start_matches('.'));
    let Some(mut found) = pieces.next().and_then(|first| found.strip_prefix(first)) else { return false };
    let mut last = "";
    let mut is_elided = false;
    for piece in pieces {
        let Some(at) = found.find(piece) else { return false };
        found = &found[at + piece.len()..];
        (last, is_elided) = (piece, true);
    }
    found.is_empty() || is_elided && found.ends_with(last)
}

#[test]
fn elisions_match_any_text_and_any_lines() {
    for (shown, output, expected) in [
        ("a\nb", "a\nb", true),
        ("a\nb", "a", false),
        ("a", "a\nb", false),
        ("a\n..\nd", "a\nb\nc\nd", true),
        ("a\n..", "a", true),
        ("..\nd", "a\nb", false),
        ("at .. of ..", "at 12:30 of 7", true),
        ("at .. of 8", "at 12:30 of 7", false),
        ("at ... of 8", "at 12:30 of 8", true),
        ("1)  # one", "1)", true),
        ("1)  # one", "1)  # one", true),
        ("1)  # one", "2)", false),
        ("ab..b", "ab", false),
    ] {
        assert_eq!(matches(&lines(shown), &lines(output)), expected, "{shown:?} and {output:?}");
    }
}
