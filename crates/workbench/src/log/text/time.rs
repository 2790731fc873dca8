//! Times of log lines as nanoseconds since 1970. Neighbouring lines nearly always have the same minute or day, so the
//! last one is kept.

const SECOND_NS: u64 = 1_000_000_000;
const MINUTE_S: i64 = 60;
const DAY_S: i64 = 86_400;

/// The length of `10/Oct/2026:13:55:36 -0700`.
const CLF_LENGTH: usize = 26;

/// Parses times, and remembers the last minute and the last day.
pub(in crate::log) struct TimeParser {
    /// A time in the Common Log Format without its seconds and zone, its zone, and its start in seconds since 1970.
    clf_minute: ([u8; 17], [u8; 6], i64),
    /// A date such as `2026-11-16`, and its start in seconds since 1970.
    date: ([u8; 10], i64),
}

impl Default for TimeParser {
    fn default() -> TimeParser {
        TimeParser { clf_minute: (*b"01/Jan/1970:00:00", *b" +0000", 0), date: (*b"1970-01-01", 0) }
    }
}

impl TimeParser {
    /// Parses a time in any of the forms below.
    pub(in crate::log) fn any(&mut self, text: &[u8]) -> Option<u64> {
        match text {
            [_, _, b'/', ..] => self.clf(text),
            [_, _, _, _, b'-', ..] => self.rfc3339(text),
            _ => epoch(text),
        }
    }

    /// Parses a time such as `10/Oct/2026:13:55:36 -0700`, as in the Common Log Format.
    #[inline]
    pub(in crate::log) fn clf(&mut self, text: &[u8]) -> Option<u64> {
        let text: &[u8; CLF_LENGTH] = text.try_into().ok()?;
        let (minute, rest) = text.split_first_chunk::<17>()?;
        let (seconds, zone) = rest.split_first_chunk::<3>()?;
        let zone: &[u8; 6] = zone.try_into().ok()?;
        if (&self.clf_minute.0, &self.clf_minute.1) != (minute, zone) {
            self.clf_minute = (*minute, *zone, clf_minute(minute, zone)?);
        }
        let [b':', tens, ones] = *seconds else { return None };
        nanoseconds(self.clf_minute.2 + second(tens, ones)?, 0)
    }

    /// Parses a time such as `2026-11-16T09:30:00.000Z` (RFC 3339). Between date and time may be a space; without a zone the time
    /// is UTC.
    pub(in crate::log) fn rfc3339(&mut self, text: &[u8]) -> Option<u64> {
        let (date, rest) = text.split_first_chunk::<10>()?;
        if self.date.0 != *date {
            self.date = (*date, start_of_date(date)?);
        }
        let [b'T' | b't' | b' ', h1, h2, b':', m1, m2, b':', s1, s2, rest @ ..] = rest else { return None };
        let time = clock(two(*h1, *h2)?, two(*m1, *m2)?)? + second(*s1, *s2)?;
        let (fraction_ns, zone) = match rest {
            [b'.' | b',', digits @ ..] => fraction(digits)?,
            _ => (0, rest),
        };
        nanoseconds(self.date.1 + time - offset(zone)?, fraction_ns)
    }
}

/// Parses the time since 1970: seconds, possibly with a fraction, or whole milliseconds, microseconds or nanoseconds,
/// which are told apart by their size.
pub(super) fn epoch(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 || digits > 19 {
        return None;
    }
    let (whole, rest) = text.split_at(digits);
    let value = whole.iter().fold(0_u64, |value, digit| value * 10 + u64::from(digit - b'0'));
    // Seconds have 10 digits until 2286. What a finer unit has after its point is left out.
    let unit_ns = match digits {
        0..=11 => SECOND_NS,
        12..=14 => 1_000_000,
        15..=17 => 1_000,
        _ => 1,
    };
    let fraction_ns = match rest {
        [] => 0,
        [b'.', digits @ ..] => match fraction(digits)? {
            (fraction_ns, []) => fraction_ns / (SECOND_NS / unit_ns),
            _ => return None,
        },
        _ => return None,
    };
    value.checked_mul(unit_ns)?.checked_add(fraction_ns)
}

/// Parses the digits after a point as nanoseconds, and returns what follows them.
fn fraction(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return None;
    }
    let shown = text[..digits].iter().chain(std::iter::repeat(&b'0')).take(9);
    Some((shown.fold(0, |value, digit| value * 10 + u64::from(digit - b'0')), &text[digits..]))
}

/// Parses the zone of RFC 3339, also without its colon, as seconds ahead of UTC.
fn offset(zone: &[u8]) -> Option<i64> {
    match *zone {
        [] | [b'Z' | b'z'] => Some(0),
        [sign, h1, h2, b':', m1, m2] | [sign, h1, h2, m1, m2] => {
            let seconds = clock(two(h1, h2)?, two(m1, m2)?)?;
            match sign {
                b'+' => Some(seconds),
                b'-' => Some(-seconds),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Parses `10/Oct/2026:13:55` and ` -0700` as seconds since 1970.
fn clf_minute(minute: &[u8; 17], zone: &[u8; 6]) -> Option<i64> {
    let [d1, d2, b'/', m1, m2, m3, b'/', y1, y2, y3, y4, b':', h1, h2, b':', n1, n2] = *minute else { return None };
    let names: [&[u8; 3]; 12] =
        [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
    let month = 1 + names.iter().position(|name| name.eq_ignore_ascii_case(&[m1, m2, m3]))?;
    let year = two(y1, y2)? * 100 + two(y3, y4)?;
    let day = start_of_day(year, i64::try_from(month).ok()?, two(d1, d2)?)?;
    let [b' ', zone @ ..] = zone else { return None };
    Some(day + clock(two(h1, h2)?, two(n1, n2)?)? - offset(zone)?)
}

/// Parses `2026-11-16` as seconds since 1970.
fn start_of_date(date: &[u8; 10]) -> Option<i64> {
    let [y1, y2, y3, y4, b'-' | b'/', m1, m2, b'-' | b'/', d1, d2] = *date else { return None };
    start_of_day(two(y1, y2)? * 100 + two(y3, y4)?, two(m1, m2)?, two(d1, d2)?)
}

/// Returns the start of a day of the Gregorian calendar in seconds since 1970.
fn start_of_day(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if year < 1 || !(1..=length).contains(&day) {
        return None;
    }
    // Years begin in March here, so that the leap day is the last of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    // 1970-01-01 in the same count.
    Some((days - 719_468) * DAY_S)
}

/// Formats a time in UTC, with milliseconds.
pub(in crate::log) fn rfc3339(time_ns: u64) -> String {
    let ms = time_ns / 1_000_000;
    let (days, ms) = (ms / 86_400_000, ms % 86_400_000);
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
    let (year, month, day) = date(days);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1_000)
}

/// Returns the date of a day since 1970: the inverse of [`start_of_day`].
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    // Years begin in March here, too.
    let (carry, month) = if month < 10 { (0, month + 3) } else { (1, month - 9) };
    (era * 400 + year_of_era + carry, month, day)
}

/// Returns the seconds of a time of day or of a zone.
fn clock(hour: i64, minute: i64) -> Option<i64> {
    (hour < 24 && minute < 60).then_some((hour * 60 + minute) * MINUTE_S)
}

/// Parses seconds; 60 is a leap second.
fn second(tens: u8, ones: u8) -> Option<i64> {
    two(tens, ones).filter(|second| *second <= 60)
}

#[inline]
fn two(tens: u8, ones: u8) -> Option<i64> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    (tens < 10 && ones < 10).then(|| i64::from(tens * 10 + ones))
}

#[inline]
fn nanoseconds(seconds: i64, fraction_ns: u64) -> Option<u64> {
    u64::try_from(seconds).ok()?.checked_mul(SECOND_NS)?.checked_add(fraction_ns)
}

#[cfg(test)]
mod tests {
    use super::{TimeParser, rfc3339};

    const NOON: u64 = 1_794_571_200_000_000_000;

    fn read(text: &str) -> Option<u64> {
        TimeParser::default().any(text.as_bytes())
    }

    #[test]
    fn all_forms_of_one_time_are_equal() {
        for text in [
            "13/Nov/2026:12:00:00 +0000",
            "13/Nov/2026:05:00:00 -0700",
            "14/Nov/2026:01:30:00 +1330",
            "2026-11-13T12:00:00Z",
            "2026-11-13 12:00:00",
            "2026-11-13T12:00:00.000000000Z",
            "2026-11-13t13:00:00+01:00",
            "2026-11-13T11:00:00-0100",
            "1794571200",
            "1794571200.0",
            "1794571200000",
            "1794571200000000",
            "1794571200000000000",
        ] {
            assert_eq!(read(text), Some(NOON), "{text}");
        }
    }

    #[test]
    fn fractions_have_up_to_nine_digits() {
        for (text, ns) in [
            ("1794571200.25", 250_000_000),
            ("1794571200.123456789", 123_456_789),
            ("1794571200.1234567899", 123_456_789),
            ("1794571200123.5", 123_500_000),
            ("2026-11-13T12:00:00.1Z", 100_000_000),
            ("2026-11-13T12:00:00,123Z", 123_000_000),
            ("2026-11-13T12:00:00.1234567891+00:00", 123_456_789),
        ] {
            assert_eq!(read(text), Some(NOON + ns), "{text}");
        }
    }

    #[test]
    fn dates_follow_the_calendar() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T00:00:00Z", 951_782_400),
            ("2100-03-01T00:00:00Z", 4_107_542_400),
            ("29/Feb/2024:23:59:60 +0000", 1_709_251_200),
        ] {
            assert_eq!(read(text), Some(seconds * 1_000_000_000), "{text}");
        }
        for text in
            ["2023-02-29T00:00:00Z", "2026-04-31T00:00:00Z", "2026-13-01T00:00:00Z", "31/Jun/2026:00:00:00 +0000"]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn other_texts_are_not_times() {
        for text in [
            "",
            "-",
            "noon",
            "12:00",
            "13/Nov/2026",
            "13/Nov/2026:12:00:00",
            "13/Abc/2026:12:00:00 +0000",
            "13/Nov/2026:24:00:00 +0000",
            "13/Nov/2026:12:00:61 +0000",
            "1969-12-31T23:59:59Z",
            "2026-11-13T12:00Z",
            "2026-11-13T12:00:00.Z",
            "2026-11-13T12:00:00 UTC",
            "2026-11-13T12:00:00+1",
            "1794571200.",
            "1794571200,5",
            "-5",
            "99999999999999999999",
            "9999-12-31T00:00:00Z",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn nul_bytes_are_not_a_remembered_time() {
        let mut times = TimeParser::default();
        assert_eq!(times.rfc3339(b"\0\0\0\0\0\0\0\0\0\0T09:30:00Z"), None);
        assert_eq!(times.clf(b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0:00\0\0\0\0\0\0"), None);
        assert_eq!(times.rfc3339(b"1970-01-01T00:00:01Z"), Some(1_000_000_000));
        assert_eq!(times.clf(b"01/Jan/1970:00:00:01 +0000"), Some(1_000_000_000));
    }

    #[test]
    fn formatted_times_are_parsed_to_the_same_time() {
        // Every day until 2170, at another time of day.
        for day in 0..73_000_u64 {
            let ns = (day * 86_400_000 + day * 12_345 % 86_400_000) * 1_000_000;
            assert_eq!(read(&rfc3339(ns)), Some(ns), "{}", rfc3339(ns));
        }
    }

    #[test]
    fn remembered_minutes_and_days_do_not_change_results() {
        let mut times = TimeParser::default();
        for text in [
            "13/Nov/2026:12:00:00 +0000",
            "13/Nov/2026:12:00:59 +0000",
            "13/Nov/2026:12:00:59 +0100",
            "13/Nov/2026:12:01:00 +0000",
            "13/Xxx/2026:12:01:00 +0000",
            "13/Nov/2026:12:01:00 +0000",
            "2026-11-13T12:00:00Z",
            "2026-11-14T12:00:00Z",
            "2026-11-13T12:00:01Z",
        ] {
            assert_eq!(times.any(text.as_bytes()), read(text), "{text}");
        }
    }
}
