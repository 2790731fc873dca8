//! How a policy's own words are repeated in a message about it, and which known word was meant by another.

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
    joined(&all_quoted(words), "or")
}

/// `a`, `b` and `c`
pub(crate) fn all_of<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    joined(&all_quoted(words), "and")
}

/// The character, or a sign in place of one that is not for showing: control
/// characters, and those that turn the direction of text or take no room.
pub(crate) fn printable(c: char) -> char {
    let hidden = matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}');
    if c.is_control() || hidden { '\u{fffd}' } else { c }
}

/// `a`, `b` or `c` with the word for `or`.
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

/// More candidates are not looked at: a hint is not worth the time.
const MAX_CANDIDATES: usize = 200;
/// Longer words are nobody's typing mistake.
const MAX_WORD_CHARS: usize = 40;

/// The known word that is nearest to `word`, if one is near.
pub(crate) fn nearest<'w>(word: &str, known: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let word = folded(word)?;
    let most = (word.len() / 3).max(1);
    known
        .into_iter()
        .take(MAX_CANDIDATES)
        .filter_map(|candidate| Some((farness(&word, &folded(candidate)?), candidate)))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `did you mean ..?`, or nothing where no known word is near.
pub(crate) fn did_you_mean<'w>(word: &str, known: impl IntoIterator<Item = &'w str>) -> String {
    nearest(word, known).map_or_else(String::new, |meant| format!("did you mean {}?", quoted(meant)))
}

/// Case does not count, nor which of `-`, `_` and space stands between words.
fn folded(word: &str) -> Option<Vec<char>> {
    let chars = || word.chars().flat_map(char::to_lowercase);
    (chars().take(MAX_WORD_CHARS + 1).count() <= MAX_WORD_CHARS)
        .then(|| chars().map(|c| if matches!(c, '_' | ' ') { '-' } else { c }).collect())
}

/// A word of the candidate's own, such as the `ip` of `client_ip`, is as near as one letter.
fn farness(word: &[char], candidate: &[char]) -> usize {
    let is_part = word.len() > 1 && candidate.split(|c| *c == '-').any(|part| part == word);
    let distance = distance(word, candidate);
    if is_part { distance.min(1) } else { distance }
}

/// How many letters must be inserted, left out, replaced or swapped with their neighbour.
fn distance(a: &[char], b: &[char]) -> usize {
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

    #[test]
    fn what_is_near_is_found() {
        let known = ["limit", "tiers", "concurrency", "on_limit", "token-bucket"];
        for (word, meant) in [
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
            assert_eq!(nearest(word, known), meant, "{word}");
        }
    }

    #[test]
    fn absurd_words_have_no_neighbour() {
        let long = "limit".repeat(100_000);
        assert_eq!(nearest(&long, ["limit"]), None);
        assert_eq!(nearest("limit", [long.as_str()]), None);
    }
}
