use clap::Args;
use clap::builder::FalseyValueParser;
use tollgate::policy::{ERROR_CODES, NOTE_CODES, SECRET_CODES, WARNING_CODES};

use crate::exit::{Exit, Failure};
use crate::output;

/// The page `docs/policy-messages.md`, so that the program can print its parts. A symbolic link: a published package
/// has only what is below its directory.
const PAGE: &str = include_str!("policy-messages.md");

/// The beginning of a heading of the page; a code follows.
const HEADING: &str = "### ";

const LIST_HINT: &str = "`tollgate message --list` lists all codes";

/// The most codes that are suggested for an unknown one.
const MAX_SUGGESTED: usize = 3;

/// Explain an error, warning or note about a policy, and how to repair the policy
#[derive(Debug, Args)]
pub(crate) struct MessageArguments {
    /// Code of the message, in brackets at the end of its first line: bad-rate
    ///
    /// Case does not matter, nor does `_` in place of `-`.
    #[arg(value_name = "CODE")]
    code: Option<String>,

    /// List all codes, one in a line
    #[arg(
        long,
        env = "TOLLGATE_MESSAGE_LIST",
        hide_env_values = true,
        value_parser = FalseyValueParser::new()
    )]
    list: bool,
}

pub(crate) fn message(arguments: &MessageArguments) -> Result<Exit, Failure> {
    let text = match &arguments.code {
        Some(code) => section(&normalized(code)).map(|text| format!("{text}\n")).ok_or_else(|| unknown(code))?,
        None if arguments.list => list(),
        None => {
            return Err(Failure::wrong_usage("the code of a message is missing, as in `tollgate message bad-rate`")
                .with_hint(LIST_HINT));
        }
    };
    output::print(&text)?;
    Ok(Exit::Done)
}

/// The codes in the order of their kinds.
fn codes() -> impl Iterator<Item = (&'static str, &'static str)> {
    let of = |kind: &'static str, codes: &'static [&'static str]| codes.iter().map(move |code| (kind, *code));
    of("error", ERROR_CODES).chain(of("warning", WARNING_CODES)).chain(of("note", NOTE_CODES))
}

/// A line for each code: the code, its kind and the first sentence of its section.
fn list() -> String {
    let width = codes().map(|(_, code)| code.len()).max().unwrap_or(0);
    codes().map(|(kind, code)| format!("{code:width$}  {:13}  {}\n", kinds(kind, code), summary(code))).collect()
}

/// The kind of a code in the list. In `validate`, missing secrets are notes.
fn kinds(kind: &str, code: &str) -> String {
    if SECRET_CODES.contains(&code) { format!("{kind}, note") } else { kind.to_owned() }
}

/// The first sentence of the section of a code, in one line.
fn summary(code: &str) -> String {
    let section = section(code).unwrap_or_default();
    let paragraph = section.split("\n\n").nth(1).unwrap_or_default().replace('\n', " ");
    let paragraph =
        ["*Means:* ", "*Cause:* "].iter().find_map(|label| paragraph.strip_prefix(label)).unwrap_or(&paragraph);
    let end = paragraph.find(". ").unwrap_or(paragraph.len());
    paragraph[..end].trim_end_matches('.').to_owned()
}

/// A code as it is documented, for a text as people copy or remember it: `#bad-rate`, `[bad-rate]`, `BAD_RATE`.
fn normalized(code: &str) -> String {
    let code = code.trim_matches(|c: char| c.is_whitespace() || "#[]`'\"".contains(c));
    code.to_ascii_lowercase().replace(['_', ' '], "-")
}

fn unknown(code: &str) -> Failure {
    let suggested: Vec<String> = suggestions(&normalized(code)).iter().map(|code| format!("`{code}`")).collect();
    let did_you_mean =
        if suggested.is_empty() { String::new() } else { format!("did you mean {}? ", suggested.join(" or ")) };
    Failure::wrong_usage(format!("there is no message with the code {code:?}"))
        .with_hint(format!("{did_you_mean}{LIST_HINT}"))
}

/// The codes nearest to an unknown one: few letters differ, or they have a word in common.
fn suggestions(code: &str) -> Vec<&'static str> {
    let has_common_word =
        |known: &str| known.split('-').any(|word| word.len() > 3 && code.split('-').any(|w| w == word));
    let mut near: Vec<(usize, &'static str)> = codes()
        .map(|(_, known)| (edit_distance(code, known), known))
        .filter(|(distance, known)| *distance <= 1 + code.len() / 4 || has_common_word(known))
        .collect();
    near.sort_unstable();
    near.into_iter().take(MAX_SUGGESTED).map(|(_, known)| known).collect()
}

/// The number of bytes to insert, remove or replace (Levenshtein distance).
fn edit_distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// The section of the page about a code, with its heading and without a line end.
fn section(code: &str) -> Option<&'static str> {
    let begin = PAGE.match_indices(HEADING).map(|(at, _)| at).find(|at| {
        let is_line = *at == 0 || PAGE.as_bytes()[at - 1] == b'\n';
        is_line && PAGE[at + HEADING.len()..].lines().next() == Some(code)
    })?;
    let rest = &PAGE[begin..];
    // To the next heading of any level.
    let end = rest.match_indices("\n#").map(|(at, _)| at).find(|at| !is_in_code(&rest[..*at])).unwrap_or(rest.len());
    Some(rest[..end].trim_end())
}

/// Whether a code block is open at the end of a text: a `#` in it is not a heading.
fn is_in_code(before: &str) -> bool {
    before.lines().filter(|line| line.starts_with("```")).count() % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_section_and_a_summary() {
        for (_, code) in codes() {
            let text = section(code).unwrap_or_else(|| panic!("{code}"));
            assert!(text.starts_with(&format!("### {code}\n")) && text.lines().count() > 2, "{code}: {text}");
            assert_eq!(text.matches("\n### ").count(), 0, "{code}: {text}");
            let summary = summary(code);
            assert!(summary.len() > 10 && !summary.contains("```") && !summary.starts_with('*'), "{code}: {summary}");
        }
        assert_eq!((section("none"), section("")), (None, None));
    }

    #[test]
    fn codes_are_found_in_any_case_and_with_underscores() {
        for text in ["bad-rate", "#bad-rate", "[bad-rate]", "BAD_RATE", "Bad rate"] {
            assert_eq!(normalized(text), "bad-rate");
        }
    }

    #[test]
    fn suggestions_are_similar_codes() {
        assert_eq!(suggestions("bad-rte").first(), Some(&"bad-rate"));
        assert!(suggestions("rate").contains(&"bad-rate"));
        assert!(suggestions("no-such-thing").len() <= MAX_SUGGESTED);
        assert_eq!(suggestions("zzzzzzzzzzzz"), [""; 0]);
        assert_eq!((edit_distance("kitten", "sitting"), edit_distance("", "abc")), (3, 3));
    }
}
