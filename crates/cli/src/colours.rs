//! Colours, for terminals and nobody else.

use std::io::{self, IsTerminal};

const BOLD: &str = "\x1b[1m";
const RED: &str = "\x1b[1;31m";
const YELLOW: &str = "\x1b[1;33m";
const CYAN: &str = "\x1b[36m";
const PLAIN: &str = "\x1b[0m";

/// Whether a stream shows colours: where it is a terminal, and `NO_COLOR` does not forbid them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Colours(bool);

impl Colours {
    pub(crate) fn of_stdout() -> Colours {
        Colours(io::stdout().is_terminal() && are_wanted())
    }

    pub(crate) fn of_stderr() -> Colours {
        Colours(io::stderr().is_terminal() && are_wanted())
    }

    /// What heads a block.
    pub(crate) fn heading(self, text: &str) -> String {
        self.in_colour(BOLD, text)
    }

    /// A message with its place, source line and hints.
    pub(crate) fn message(self, text: &str) -> String {
        if !self.0 {
            return text.to_owned();
        }
        text.lines().map(|line| self.message_line(line)).collect::<Vec<_>>().join("\n")
    }

    fn message_line(self, line: &str) -> String {
        // A line of the file is indented, whatever it says.
        if line.starts_with(' ') {
            return line.to_owned();
        }
        for (word, colour) in [("error: ", RED), ("warning: ", YELLOW), ("hint: ", CYAN)] {
            let split = match line.strip_prefix(word) {
                Some(rest) => Some(("", rest)),
                None => line.split_once(&format!(": {word}")),
            };
            if let Some((place, rest)) = split {
                let place = if place.is_empty() { String::new() } else { self.in_colour(BOLD, &format!("{place}: ")) };
                return format!("{place}{}{rest}", self.in_colour(colour, word));
            }
        }
        line.to_owned()
    }

    fn in_colour(self, colour: &str, text: &str) -> String {
        if self.0 { format!("{colour}{text}{PLAIN}") } else { text.to_owned() }
    }
}

/// As <https://no-color.org> has it: set and not empty means no.
fn are_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &str = "f.yaml:3:5: error: wrong\n  3 | a: error: b\nhint: do this";

    #[test]
    fn without_colours_a_message_is_as_it_is() {
        assert_eq!(Colours(false).message(MESSAGE), MESSAGE);
        assert_eq!(Colours(false).heading("a"), "a");
    }

    #[test]
    fn the_place_the_kind_and_the_hint_stand_out() {
        let expected =
            "\x1b[1mf.yaml:3:5: \x1b[0m\x1b[1;31merror: \x1b[0mwrong\n  3 | a: error: b\n\x1b[36mhint: \x1b[0mdo this";
        assert_eq!(Colours(true).message(MESSAGE), expected);
        assert_eq!(Colours(true).message("warning: x"), "\x1b[1;33mwarning: \x1b[0mx");
    }
}
