//! Which known word somebody meant.

/// More candidates are not looked at: a hint is not worth the time.
const MAX_CANDIDATES: usize = 200;
/// Longer words are nobody's typing mistake.
const MAX_CHARS: usize = 40;

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

/// Case does not count, nor which of `-`, `_` and space stands between words.
fn folded(word: &str) -> Option<Vec<char>> {
    let chars = || word.chars().flat_map(char::to_lowercase);
    (chars().take(MAX_CHARS + 1).count() <= MAX_CHARS)
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
