//! Colours for terminals.

use std::io::{self, IsTerminal};

const BOLD: &str = "\x1b[1m";
const RED: &str = "\x1b[1;31m";
const YELLOW: &str = "\x1b[1;33m";
const CYAN: &str = "\x1b[36m";
const PLAIN: &str = "\x1b[0m";

/// Whether a stream gets colours: it is a terminal, and `NO_COLOR` is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Colours(bool);

impl Colours {
    pub(crate) fn of_stdout() -> Colours {
        Colours(io::stdout().is_terminal() && are_enabled())
    }

    pub(crate) fn of_stderr() -> Colours {
        Colours(io::stderr().is_terminal() && are_enabled())
    }

    /// Formats the heading of a block.
    pub(crate) fn heading(self, text: &str) -> String {
        self.in_colour(BOLD, text)
    }

    /// Formats a message with its position, source line and hints.
    pub(crate) fn message(self, text: &str) -> String {
        if !self.0 {
            return text.to_owned();
        }
        text.lines().map(|line| self.message_line(line)).collect::<Vec<_>>().join("\n")
    }

    fn message_line(self, line: &str) -> String {
        // Source lines are indented; their content is not formatted.
        if line.starts_with(' ') {
            return line.to_owned();
        }
        for (word, colour) in [("error: ", RED), ("warning: ", YELLOW), ("note: ", BOLD), ("hint: ", CYAN)] {
            let split = match line.strip_prefix(word) {
                Some(rest) => Some(("", rest)),
                None => line.split_once(&format!(": {word}")),
            };
            if let Some((position, rest)) = split {
                let position =
                    if position.is_empty() { String::new() } else { self.in_colour(BOLD, &format!("{position}: ")) };
                return format!("{position}{}{rest}", self.in_colour(colour, word));
            }
        }
        line.to_owned()
    }

    fn in_colour(self, colour: &str, text: &str) -> String {
        if self.0 { format!("{colour}{text}{PLAIN}") } else { text.to_owned() }
    }
}

/// Whether `NO_COLOR` is unset or empty, as <https://no-color.org> defines it.
fn are_enabled() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &str = "f.yaml:3:5: error: wrong\n  3 | a: error: b\nhint: do this";

    #[test]
    fn message_without_colours_is_unchanged() {
        assert_eq!(Colours(false).message(MESSAGE), MESSAGE);
        assert_eq!(Colours(false).heading("a"), "a");
    }

    #[test]
    fn position_severity_and_hint_are_coloured() {
        let expected =
            "\x1b[1mf.yaml:3:5: \x1b[0m\x1b[1;31merror: \x1b[0mwrong\n  3 | a: error: b\n\x1b[36mhint: \x1b[0mdo this";
        assert_eq!(Colours(true).message(MESSAGE), expected);
        assert_eq!(Colours(true).message("warning: x"), "\x1b[1;33mwarning: \x1b[0mx");
    }
}
