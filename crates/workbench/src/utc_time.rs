//! Times of the Gregorian calendar, in UTC.

/// A time of the calendar, to the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UtcTime {
    year: u64,
    month: u64,
    day: u64,
    second_of_day: u64,
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

impl UtcTime {
    /// Returns the time of a number of nanoseconds since 1970.
    #[must_use]
    pub fn from_ns(time_ns: u64) -> UtcTime {
        const DAYS_IN_ERA: u64 = 146_097;
        const DAYS_FROM_YEAR_0: u64 = 719_468;
        let seconds = time_ns / 1_000_000_000;
        // Years begin in March, so that the leap day is the last one, and 400 years are an era.
        let days = seconds / 86_400 + DAYS_FROM_YEAR_0;
        let (era, day_of_era) = (days / DAYS_IN_ERA, days % DAYS_IN_ERA);
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        UtcTime {
            year: 400 * era + year_of_era + u64::from(month <= 2),
            month,
            day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
            second_of_day: seconds % 86_400,
        }
    }

    /// Returns the time as in logs of the combined format: `01/Jan/2026:00:01:01 +0000`.
    #[must_use]
    pub fn combined(&self) -> String {
        let month = MONTHS[(self.month as usize).saturating_sub(1) % 12];
        format!("{:02}/{month}/{}:{} +0000", self.day, self.year, self.clock())
    }

    /// Returns the time of day: `00:01:01`.
    #[must_use]
    pub fn clock(&self) -> String {
        let second = self.second_of_day;
        format!("{:02}:{:02}:{:02}", second / 3_600, second / 60 % 60, second % 60)
    }

    /// Returns the day: `2026-01-01`.
    #[must_use]
    pub fn date(&self) -> String {
        format!("{}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

/// As RFC 3339: `2026-01-01T00:01:01Z`.
impl std::fmt::Display for UtcTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}T{}Z", self.date(), self.clock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (second, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_767_225_661, "2026-01-01T00:01:01Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(UtcTime::from_ns(second * 1_000_000_000).to_string(), expected);
        }
    }
}
