//! Quotes texts of a policy in messages, and finds the known word nearest to a misspelt one.

/// The longest text that is quoted in full. Longer texts are cut.
const MAX_CHARS: usize = 60;

/// Quotes a text in backticks. Cuts a long text, and replaces characters that would control a terminal.
pub(crate) fn quoted(text: &str) -> String {
    let cut = text.chars().nth(MAX_CHARS).is_some();
    let shown: String = text.chars().take(MAX_CHARS).map(printable).collect();
    format!("`{shown}{}`", if cut { "…" } else { "" })
}

/// Quotes and joins words: `a`, `b` or `c`.
pub(crate) fn either<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    joined(&all_quoted(words), "or")
}

/// Quotes and joins words: `a`, `b` and `c`.
pub(crate) fn all_of<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    joined(&all_quoted(words), "and")
}

/// Returns the character, or U+FFFD in place of one that must not be shown: control characters, characters that change
/// the direction of text, and characters without width.
pub(crate) fn printable(c: char) -> char {
    let hidden = matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}');
    if c.is_control() || hidden { '\u{fffd}' } else { c }
}

/// Joins words with commas, and with `last_word` before the last.
pub(crate) fn joined(words: &[String], last_word: &str) -> String {
    match words {
        [] => String::new(),
        [only] => only.clone(),
        [rest @ .., last] => format!("{} {last_word} {last}", rest.join(", ")),
    }
}

fn all_quoted<'w>(words: impl IntoIterator<Item = &'w str>) -> Vec<String> {
    words.into_iter().map(quoted).collect()
}

/// The most candidates that are compared. A hint is not worth more time.
const MAX_CANDIDATES: usize = 200;
/// The longest word that is compared. Longer words are not typing mistakes.
const MAX_WORD_CHARS: usize = 40;

/// Returns the known word that is nearest to `word`, if one is near enough.
pub(crate) fn nearest<'w>(word: &str, known: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let word = folded(word)?;
    let most = (word.len() / 3).max(1);
    known
        .into_iter()
        .take(MAX_CANDIDATES)
        .filter_map(|candidate| Some((word_distance(&word, &folded(candidate)?), candidate)))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns `did you mean ..?`, or an empty text if no known word is near.
pub(crate) fn did_you_mean<'w>(word: &str, known: impl IntoIterator<Item = &'w str>) -> String {
    nearest(word, known).map_or_else(String::new, |near| format!("did you mean {}?", quoted(near)))
}

/// Lower-cases a word and replaces `_` and space by `-`. Returns `None` for a long word.
fn folded(word: &str) -> Option<Vec<char>> {
    let chars = || word.chars().flat_map(char::to_lowercase);
    (chars().take(MAX_WORD_CHARS + 1).count() <= MAX_WORD_CHARS)
        .then(|| chars().map(|c| if matches!(c, '_' | ' ') { '-' } else { c }).collect())
}

/// The edit distance, and at most 1 for a whole part of the candidate, such as the `ip` of `client_ip`.
fn word_distance(word: &[char], candidate: &[char]) -> usize {
    let is_part = word.len() > 1 && candidate.split(|c| *c == '-').any(|part| part == word);
    let distance = edit_distance(word, candidate);
    if is_part { distance.min(1) } else { distance }
}

/// The number of letters to insert, delete, replace or swap with their neighbour (optimal string alignment).
fn edit_distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_and_joined() {
        assert_eq!(either(["a"]), "`a`");
        assert_eq!(either(["a", "b"]), "`a` or `b`");
        assert_eq!(all_of(["a", "b", "c"]), "`a`, `b` and `c`");
        assert_eq!(either([]), "");
    }

    #[test]
    fn control_characters_are_replaced_and_long_texts_cut() {
        assert_eq!(quoted("a\u{1b}[31m\u{202e}b"), "`a\u{fffd}[31m\u{fffd}b`");
        assert_eq!(quoted(&"x".repeat(1000)).chars().count(), 63);
    }

    #[test]
    fn nearest_known_word_is_found() {
        let known = ["limit", "tiers", "concurrency", "on_limit", "token-bucket"];
        for (word, expected) in [
            ("limt", Some("limit")),
            ("ilmit", Some("limit")),
            ("Limit", Some("limit")),
            ("on-limit", Some("on_limit")),
            ("token_bucket", Some("token-bucket")),
            ("concurency", Some("concurrency")),
            ("bucket", Some("token-bucket")),
            ("xyz", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
    }

    #[test]
    fn overlong_words_are_not_compared() {
        let long = "limit".repeat(100_000);
        assert_eq!(nearest(&long, ["limit"]), None);
        assert_eq!(nearest("limit", [long.as_str()]), None);
    }
}
