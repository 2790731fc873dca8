use clap::Args;

use crate::exit::{Exit, Failure};
use crate::output;

/// What `docs/policy-messages.md` says, for whoever has only the program.
const PAGE: &str = include_str!("../../../docs/policy-messages.md");

/// Before the name of a message, in the page.
const HEADING: &str = "### ";

/// Explain a message of `tollgate validate`: what it means, and how to repair it
#[derive(Debug, Args)]
pub(crate) struct MessageArguments {
    /// Its name: what stands behind the # where a message says how it is explained
    name: String,
}

pub(crate) fn message(arguments: &MessageArguments) -> Result<Exit, Failure> {
    let wanted = arguments.name.trim_start_matches('#');
    let text = explained(wanted).ok_or_else(|| {
        Failure::wrong_usage(format!("there is no message {wanted:?}")).with_hint(format!("there are {}", names()))
    })?;
    output::print(text)?;
    Ok(Exit::Done)
}

/// The part of the page about a message, with its heading.
fn explained(name: &str) -> Option<&'static str> {
    let begin = PAGE.match_indices(HEADING).map(|(at, _)| at).find(|at| {
        let is_line = *at == 0 || PAGE.as_bytes()[at - 1] == b'\n';
        is_line && PAGE[at + HEADING.len()..].lines().next() == Some(name)
    })?;
    let rest = &PAGE[begin..];
    // To the next heading, whichever.
    let end = rest.match_indices("\n#").map(|(at, _)| at).find(|at| !is_in_code(&rest[..*at])).unwrap_or(rest.len());
    Some(rest[..end].trim_end())
}

/// Whether an example has begun and not ended: in it a # begins no heading.
fn is_in_code(before: &str) -> bool {
    before.lines().filter(|line| line.starts_with("```")).count() % 2 == 1
}

fn names() -> String {
    PAGE.lines().filter_map(|line| line.strip_prefix(HEADING)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use tollgate::policy::{ERROR_CODES, WARNING_CODES};

    use super::*;

    #[test]
    fn every_message_is_explained() {
        for code in ERROR_CODES.iter().chain(WARNING_CODES) {
            let text = explained(code).unwrap_or_else(|| panic!("{code}"));
            assert!(text.starts_with(&format!("### {code}\n")) && text.lines().count() > 2, "{code}: {text}");
            assert_eq!(text.matches("\n### ").count(), 0, "{code}: {text}");
        }
        assert_eq!(explained("none"), None);
        assert_eq!(explained(""), None);
    }
}
