use std::str::FromStr;

use tollgate_core::Rate;

/// Parses a duration such as `10min` and returns it in nanoseconds. An error has the index of the first wrong character,
/// counted from 0, and a message with what was expected.
pub fn parse_duration(text: &str) -> Result<u64, (usize, String)> {
    const BEFORE: &str = "1 per ";
    let general = "expected a whole number and a unit (ms, s, min, h, day, week, month, year), such as 2s or 10min";
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return Err((0, format!("not a duration: {general}")));
    }
    match Rate::from_str(&format!("{BEFORE}{text}")) {
        Ok(rate) if rate.burst().is_none() => Ok(rate.period_ns()),
        Ok(_) => Err((0, format!("not a duration: {general}"))),
        Err(error) => {
            let expected = error.expected();
            let column = error.column().saturating_sub(BEFORE.len());
            // Messages of the core about periods are right here too; those about rates are not.
            let fits = expected.contains("a minute or a month") || expected.starts_with("a period");
            Err((column, format!("not a duration: {}", if fits { expected.as_str() } else { general })))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed() {
        for (text, ms) in
            [("500ms", 500), ("2s", 2_000), ("10min", 600_000), ("1 hour", 3_600_000), ("1day", 86_400_000)]
        {
            assert_eq!(parse_duration(text), Ok(ms * 1_000_000), "{text}");
        }
    }

    #[test]
    fn invalid_durations_are_refused_with_the_column() {
        for (text, column, part) in [
            ("", 0, "whole number"),
            ("s", 0, "whole number"),
            ("-1s", 0, "whole number"),
            ("2", 1, "unit"),
            ("2m", 1, "minute or a month"),
            ("1.5s", 1, "whole number"),
            ("0s", 0, "at least 1ms"),
            ("2s burst 3", 0, "whole number"),
            ("2s x", 3, "whole number"),
        ] {
            let (at, message) = parse_duration(text).expect_err(text);
            assert_eq!(at, column, "{text}: {message}");
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
