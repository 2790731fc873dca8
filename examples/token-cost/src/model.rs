//! A stand-in for a language model: the length of its answer is not known in advance.

/// Returns each word of the prompt as many times as it has letters.
pub(crate) fn answer_to(prompt: &str) -> String {
    let repeated = |word: &str| vec![word.to_owned(); word.chars().count()];
    prompt.split_whitespace().flat_map(repeated).collect::<Vec<_>>().join(" ")
}

/// Returns the number of tokens of a text: its words.
pub(crate) fn tokens(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}
