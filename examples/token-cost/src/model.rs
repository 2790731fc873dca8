//! Something like a language model: nobody knows how long its answer will be.

/// Says every word of the question so many times as it has letters.
pub(crate) fn answer_to(prompt: &str) -> String {
    let repeated = |word: &str| vec![word.to_owned(); word.chars().count()];
    prompt.split_whitespace().flat_map(repeated).collect::<Vec<_>>().join(" ")
}

/// How many tokens a text has: its words.
pub(crate) fn tokens(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}
