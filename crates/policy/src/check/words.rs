//! How a policy's own words are repeated in a message about it.

/// Longer texts are cut.
const MAX_CHARS: usize = 60;

/// The text in backticks: cut where it is long, and with nothing in it that would move a terminal.
pub(crate) fn quoted(text: &str) -> String {
    let cut = text.chars().nth(MAX_CHARS).is_some();
    let shown: String = text.chars().take(MAX_CHARS).map(printable).collect();
    format!("`{shown}{}`", if cut { "…" } else { "" })
}

/// `a`, `b` or `c`
pub(crate) fn either<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    joined(words, "or")
}

/// `a`, `b` and `c`
pub(crate) fn all_of<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    joined(words, "and")
}

/// The character, or a sign in place of one that is not for showing: control
/// characters, and those that turn the direction of text or take no room.
pub(crate) fn printable(c: char) -> char {
    let hidden = matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}');
    if c.is_control() || hidden { '\u{fffd}' } else { c }
}

fn joined<'w>(words: impl IntoIterator<Item = &'w str>, last_word: &str) -> String {
    let words: Vec<String> = words.into_iter().map(quoted).collect();
    match words.split_last() {
        None => String::new(),
        Some((only, [])) => only.clone(),
        Some((last, rest)) => format!("{} {last_word} {last}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_read_as_sentences() {
        assert_eq!(either(["a"]), "`a`");
        assert_eq!(either(["a", "b"]), "`a` or `b`");
        assert_eq!(all_of(["a", "b", "c"]), "`a`, `b` and `c`");
        assert_eq!(either([]), "");
    }

    #[test]
    fn nothing_reaches_the_terminal_raw() {
        assert_eq!(quoted("a\u{1b}[31m\u{202e}b"), "`a\u{fffd}[31m\u{fffd}b`");
        assert_eq!(quoted(&"x".repeat(1000)).chars().count(), 63);
    }
}
