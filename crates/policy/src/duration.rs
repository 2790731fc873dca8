use std::str::FromStr;

use tollgate_core::Rate;

/// Reads a length of time such as `10min` in nanoseconds, or says at which
/// character, counted from 0, it stops being one, and what was expected.
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
            // What the core says of periods holds here as well; what it says of rates does not.
            let fits = expected.contains("a minute or a month") || expected.starts_with("a period");
            Err((column, format!("not a duration: {}", if fits { expected.as_str() } else { general })))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, ms) in
            [("500ms", 500), ("2s", 2_000), ("10min", 600_000), ("1 hour", 3_600_000), ("1day", 86_400_000)]
        {
            assert_eq!(parse_duration(text), Ok(ms * 1_000_000), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_says_where() {
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
