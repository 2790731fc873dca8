//! Parses rates from text. Errors point at the character.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::rate::{Rate, RateError};

/// Longer than any sensible rate. A longer text is rejected before it is parsed.
const MAX_TEXT_BYTES: usize = 128;

const MS: u64 = 1;
const S: u64 = 1_000 * MS;
const MIN: u64 = 60 * S;
const H: u64 = 60 * MIN;
const DAY: u64 = 24 * H;
const WEEK: u64 = 7 * DAY;
const MONTH: u64 = 30 * DAY;
const YEAR: u64 = 365 * DAY;

/// All names of units, with their length in milliseconds.
const UNITS: [(&str, u64); 28] = [
    ("ms", MS),
    ("millisecond", MS),
    ("milliseconds", MS),
    ("s", S),
    ("sec", S),
    ("secs", S),
    ("second", S),
    ("seconds", S),
    ("min", MIN),
    ("mins", MIN),
    ("minute", MIN),
    ("minutes", MIN),
    ("h", H),
    ("hr", H),
    ("hour", H),
    ("hours", H),
    ("day", DAY),
    ("d", DAY),
    ("days", DAY),
    ("week", WEEK),
    ("w", WEEK),
    ("weeks", WEEK),
    ("month", MONTH),
    ("months", MONTH),
    ("year", YEAR),
    ("y", YEAR),
    ("yr", YEAR),
    ("years", YEAR),
];

/// An error in the text of a rate: what was expected, and where.
///
/// ```
/// use tollgate_core::Rate;
///
/// let error = "5/fortnight".parse::<Rate>().unwrap_err();
/// assert_eq!(error.column(), 2);
/// assert_eq!(error.expected(), "expected a unit: ms, s, min, h, day, week, month or year");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseRateError {
    text: String,
    column: usize,
    problem: RateProblem,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum RateProblem {
    TooLong,
    Number,
    NumberTooLarge,
    Fraction,
    ThousandsSeparator,
    Separator,
    Unit,
    AmbiguousM,
    BurstOrEnd,
    Range(RateError),
}

impl ParseRateError {
    /// Returns the position of the first wrong character, counted in characters from 0.
    #[must_use]
    pub fn column(&self) -> usize {
        self.column
    }

    /// Describes what was expected at that position, in one line.
    #[must_use]
    pub fn expected(&self) -> String {
        match &self.problem {
            RateProblem::TooLong => format!("expected a rate of at most {MAX_TEXT_BYTES} bytes, such as 100/s"),
            RateProblem::Number => "expected a whole number, such as the 100 in 100/s".into(),
            RateProblem::NumberTooLarge => "expected a number of at most 1000000000000 (10^12)".into(),
            RateProblem::Fraction => {
                "expected a whole number; write a fraction with a longer period: 1.5/s is 3 per 2s".into()
            }
            RateProblem::ThousandsSeparator => {
                "expected a whole number without thousands separators, such as 1000 or 1_000".into()
            }
            RateProblem::Separator => "expected `/` or `per`, as in 100/s or 10 per 30s".into(),
            RateProblem::Unit => "expected a unit: ms, s, min, h, day, week, month or year".into(),
            RateProblem::AmbiguousM => "expected a unit; `m` could be a minute or a month, write min or month".into(),
            RateProblem::BurstOrEnd => {
                "expected the end of the rate, or `burst` and a number, as in 60/min burst 100".into()
            }
            RateProblem::Range(error) => error.to_string(),
        }
    }
}

impl fmt::Display for ParseRateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(self.problem, RateProblem::TooLong) {
            return write!(f, "not a rate: {}", self.expected());
        }
        writeln!(f, "not a rate: {}", self.expected())?;
        writeln!(f, "  {}", self.text)?;
        write!(f, "  {:width$}^", "", width = self.column)
    }
}

impl std::error::Error for ParseRateError {}

impl FromStr for Rate {
    type Err = ParseRateError;

    fn from_str(text: &str) -> Result<Rate, ParseRateError> {
        if text.len() > MAX_TEXT_BYTES {
            let column = text[..text.floor_char_boundary(MAX_TEXT_BYTES)].chars().count();
            return Err(ParseRateError { text: String::new(), column, problem: RateProblem::TooLong });
        }
        RateParser { text, offset: 0 }.rate().map_err(|(offset, problem)| ParseRateError {
            // Control characters would displace the caret, or control the terminal.
            text: text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect(),
            column: text[..offset].chars().count(),
            problem,
        })
    }
}

/// Returns the largest unit that divides a length, with its milliseconds.
pub(crate) fn largest_unit_dividing(ms: u64) -> (u64, &'static str) {
    const PRINTED: [(u64, &str); 6] = [(WEEK, "week"), (DAY, "day"), (H, "h"), (MIN, "min"), (S, "s"), (MS, "ms")];
    PRINTED.into_iter().find(|(size, _)| ms.is_multiple_of(*size)).unwrap_or((MS, "ms"))
}

type ParseFailure = (usize, RateProblem);

struct RateParser<'a> {
    text: &'a str,
    offset: usize,
}

impl<'a> RateParser<'a> {
    fn rate(mut self) -> Result<Rate, ParseFailure> {
        self.spaces();
        let count_offset = self.offset;
        let count = self.number()?;
        self.spaces();
        self.separator()?;
        self.spaces();
        let period_offset = self.offset;
        let period = self.period()?;
        let rate = Rate::new(count, period).map_err(|error| match error {
            RateError::Period => (period_offset, RateProblem::Range(error)),
            _ => (count_offset, RateProblem::Range(error)),
        })?;
        self.spaces();
        if self.rest().is_empty() {
            return Ok(rate);
        }
        if !self.word("burst") {
            return Err((self.offset, RateProblem::BurstOrEnd));
        }
        self.spaces();
        let burst_offset = self.offset;
        let burst = self.number()?;
        self.spaces();
        if !self.rest().is_empty() {
            return Err((self.offset, RateProblem::BurstOrEnd));
        }
        rate.with_burst(burst).map_err(|error| (burst_offset, RateProblem::Range(error)))
    }

    fn rest(&self) -> &'a str {
        &self.text[self.offset..]
    }

    fn spaces(&mut self) {
        self.offset = self.text.len() - self.rest().trim_start_matches([' ', '\t']).len();
    }

    /// Parses digits, optionally grouped by underscores: `1_000`.
    fn number(&mut self) -> Result<u64, ParseFailure> {
        let start = self.offset;
        let digits = self.rest().bytes().take_while(|b| b.is_ascii_digit() || *b == b'_').count();
        let text = &self.rest()[..digits];
        if !text.starts_with(|c: char| c.is_ascii_digit()) {
            return Err((start, RateProblem::Number));
        }
        self.offset += digits;
        if self.rest().starts_with(['.', ',']) {
            let is_grouped = self.rest().starts_with(',') && self.starts_group();
            return Err((
                self.offset,
                if is_grouped { RateProblem::ThousandsSeparator } else { RateProblem::Fraction },
            ));
        }
        if self.rest().starts_with([' ', '\'']) && self.starts_group() {
            return Err((self.offset, RateProblem::ThousandsSeparator));
        }
        let mut value: u64 = 0;
        for digit in text.bytes().filter(u8::is_ascii_digit) {
            value = value
                .checked_mul(10)
                .and_then(|v| v.checked_add(u64::from(digit - b'0')))
                .ok_or((start, RateProblem::NumberTooLarge))?;
        }
        Ok(value)
    }

    /// Returns whether the next character separates exactly three digits from those before it, as in `1,000`.
    fn starts_group(&self) -> bool {
        let after = self.rest().bytes().skip(1);
        after.take_while(u8::is_ascii_digit).count() == 3
    }

    fn separator(&mut self) -> Result<(), ParseFailure> {
        if self.rest().starts_with('/') {
            self.offset += 1;
            return Ok(());
        }
        if self.word("per") { Ok(()) } else { Err((self.offset, RateProblem::Separator)) }
    }

    /// Parses a period: `s`, `30s`, `30 seconds`.
    fn period(&mut self) -> Result<Duration, ParseFailure> {
        let start = self.offset;
        let factor = if self.rest().starts_with(|c: char| c.is_ascii_digit()) { self.number()? } else { 1 };
        self.spaces();
        let letters = self.rest().bytes().take_while(u8::is_ascii_alphabetic).count();
        let name = &self.rest()[..letters];
        let unit_ms = UNITS
            .iter()
            .find(|(word, _)| word.eq_ignore_ascii_case(name))
            .map(|(_, ms)| *ms)
            .ok_or(if name.eq_ignore_ascii_case("m") { RateProblem::AmbiguousM } else { RateProblem::Unit })
            .map_err(|problem| (self.offset, problem))?;
        self.offset += letters;
        let ms = factor.checked_mul(unit_ms).ok_or((start, RateProblem::Range(RateError::Period)))?;
        Ok(Duration::from_millis(ms))
    }

    /// Consumes a whole word, in any letter case, if it is next.
    fn word(&mut self, word: &str) -> bool {
        let rest = self.rest();
        let found = rest.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word))
            && !rest[word.len()..].starts_with(|c: char| c.is_ascii_alphabetic());
        if found {
            self.offset += word.len();
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> Rate {
        text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    fn error(text: &str) -> ParseRateError {
        text.parse::<Rate>().expect_err(text)
    }

    #[test]
    fn rates_parse_in_all_notations_and_print_back() {
        for (text, count, period_ms, burst) in [
            ("100/s", 100, S, None),
            ("5/min", 5, MIN, None),
            ("10 per 30s", 10, 30 * S, None),
            ("1000/day", 1000, DAY, None),
            ("60/min burst 100", 60, MIN, Some(100)),
            (" 1_000 / 2 hours Burst 7 ", 1000, 2 * H, Some(7)),
            ("3 per week", 3, WEEK, None),
            ("9/month", 9, MONTH, None),
            ("1/year", 1, YEAR, None),
            ("1000000000/s", 1_000_000_000, S, None),
            ("40/h", 40, H, None),
            ("5/250ms", 5, 250, None),
        ] {
            let parsed = rate(text);
            assert_eq!((parsed.count(), parsed.period_ns(), parsed.burst()), (count, period_ms * 1_000_000, burst));
            assert_eq!(rate(&parsed.to_string()), parsed, "{parsed} parses back");
        }
    }

    #[test]
    fn errors_report_the_column_and_what_was_expected() {
        for (text, column, expected) in [
            ("", 0, "whole number"),
            ("/s", 0, "whole number"),
            ("-5/s", 0, "whole number"),
            ("NaN/s", 0, "whole number"),
            ("∞/s", 0, "whole number"),
            ("1.5/s", 1, "3 per 2s"),
            ("1,5/s", 1, "3 per 2s"),
            ("1,000/s", 1, "without thousands separators"),
            ("1,000,000/day", 1, "without thousands separators"),
            ("10 000/s", 2, "without thousands separators"),
            ("1'000/s", 1, "without thousands separators"),
            ("1e9/s", 1, "`/` or `per`"),
            ("100", 3, "`/` or `per`"),
            ("100 pers", 4, "`/` or `per`"),
            ("5/fortnight", 2, "a unit"),
            ("5/m", 2, "minute or a month"),
            ("5/30", 4, "a unit"),
            ("5/s bust 3", 4, "`burst`"),
            ("5/s burst", 9, "whole number"),
            ("5/s burst 3 x", 12, "`burst`"),
            ("5/s burst -3", 10, "whole number"),
            ("0/s", 0, "at least 1"),
            ("5/0s", 2, "period"),
            ("5/s burst 0", 10, "at least 1"),
            ("99999999999999999999/s", 0, "at most 1000000000000"),
            ("1000000000001/day", 0, "at most 1000000000000"),
            ("1000000001/s", 0, "10^9"),
            ("1/99999999999999999999s", 2, "at most"),
            ("1/9999999999999999999s", 2, "period"),
            ("1/year burst 40", 13, "36 years"),
        ] {
            let error = error(text);
            assert_eq!(error.column(), column, "{text}: {error}");
            assert!(error.expected().contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn error_text_has_a_caret_under_the_wrong_character() {
        assert_eq!(
            error("5/fortnight").to_string(),
            "not a rate: expected a unit: ms, s, min, h, day, week, month or year\n  5/fortnight\n    ^"
        );
    }

    #[test]
    fn overlong_texts_are_rejected_with_a_short_error() {
        let text = "9".repeat(10_000_000);
        assert!(error(&text).to_string().len() < 200);
        assert_eq!(error(&text).column(), MAX_TEXT_BYTES);
        assert_eq!(error(&"∞".repeat(43)).column(), 42, "counted in characters, of which 42 fit");
    }
}
