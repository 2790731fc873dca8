//! Numbers and durations as values of flags.

use std::time::Duration;

use tollgate::policy::parse_duration;

/// The longest duration that a flag accepts.
const MAX: Duration = Duration::from_secs(86_400);

/// Why the text of a flag is not a duration.
#[derive(Debug, thiserror::Error)]
#[error("expected a duration from 1ms to 1day, such as 500ms, 75s or 2min; a number without a unit is seconds")]
pub(super) struct NotADuration;

/// Reads a duration such as `500ms`, `75s` or `2min`. A number without a unit is seconds.
pub(super) fn duration(text: &str) -> Result<Duration, NotADuration> {
    let read = match text.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => parse_duration(text).ok().map(Duration::from_nanos),
    };
    read.filter(|duration| !duration.is_zero() && *duration <= MAX).ok_or(NotADuration)
}

/// Why the text of a flag is not a number in its range.
#[derive(Debug, thiserror::Error)]
#[error("expected a whole number from 1 to {0}")]
pub(super) struct NotANumber(u32);

/// Reads a whole number from 1 to `MAX`.
pub(super) fn number_up_to<const MAX: u32>(text: &str) -> Result<u32, NotANumber> {
    text.parse().ok().filter(|number| (1..=MAX).contains(number)).ok_or(NotANumber(MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_without_a_unit_is_seconds() {
        for (text, ms) in [("75", 75_000), ("5s", 5_000), ("500ms", 500), ("2min", 120_000), ("1day", 86_400_000)] {
            assert_eq!(duration(text).unwrap(), Duration::from_millis(ms), "{text}");
        }
    }

    #[test]
    fn invalid_and_out_of_range_durations_are_rejected() {
        for text in ["", "0", "0s", "-1", "2m", "1.5s", "5 apples", "86401", "2day", "off"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn range_includes_both_ends() {
        assert_eq!((number_up_to::<8>("1").unwrap(), number_up_to::<8>("8").unwrap()), (1, 8));
        for text in ["", "0", "9", "-1", "x", "1.5", "99999999999"] {
            assert!(number_up_to::<8>(text).is_err(), "{text}");
        }
    }
}
