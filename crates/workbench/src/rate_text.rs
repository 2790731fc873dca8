//! Rates and periods as people and policies write them.

use tollgate::Rate;

/// Returns a rate as a policy writes it, with its burst unless that is the default.
#[must_use]
pub fn rate_text(rate: &Rate) -> String {
    let limit = match unit_of(rate.period_ns()) {
        Some(unit) => format!("{}/{unit}", rate.count()),
        None => format!("{} per {}", rate.count(), period_text(rate.period_ns())),
    };
    let default_burst = Rate::new(rate.count(), rate.period()).map(|rate| rate.burst_or_default());
    match rate.burst() {
        Some(burst) if Ok(burst) != default_burst => format!("{limit} burst {burst}"),
        _ => limit,
    }
}

/// Returns a period as a policy writes it: `min`, `10min`, `45s`.
#[must_use]
pub fn period_text(period_ns: u64) -> String {
    if let Some(unit) = unit_of(period_ns) {
        return unit.to_owned();
    }
    let milliseconds = period_ns / 1_000_000;
    const UNITS: [(u64, &str); 4] = [(3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms")];
    let whole = UNITS.iter().find(|(length_ms, _)| milliseconds.is_multiple_of(*length_ms));
    whole.map_or_else(|| format!("{milliseconds}ms"), |(length_ms, unit)| format!("{}{unit}", milliseconds / length_ms))
}

/// Returns a period in words, to follow `in any`: `minute`, `10 minutes`.
#[must_use]
pub fn period_words(period_ns: u64) -> String {
    const UNITS: [(u64, &str); 5] =
        [(86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1_000, "second"), (1, "millisecond")];
    let milliseconds = period_ns / 1_000_000;
    let whole = UNITS.iter().find(|(length_ms, _)| milliseconds.is_multiple_of(*length_ms));
    match whole.map(|(length_ms, unit)| (milliseconds / length_ms, unit)) {
        Some((1, unit)) => (*unit).to_owned(),
        Some((count, unit)) => format!("{count} {unit}s"),
        None => format!("{milliseconds} milliseconds"),
    }
}

fn unit_of(period_ns: u64) -> Option<&'static str> {
    match period_ns / 1_000_000 {
        1 => Some("ms"),
        1_000 => Some("s"),
        60_000 => Some("min"),
        3_600_000 => Some("h"),
        86_400_000 => Some("day"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_written_as_they_are_read() {
        for text in ["60/min burst 30", "60/min", "25 per 10min burst 6", "10/s burst 10", "5 per 45s", "7/day", "1/ms"]
        {
            let rate: Rate = text.parse().unwrap();
            assert_eq!(rate_text(&rate), text);
        }
        let words = [60, 600, 1, 86_400, 45].map(|seconds| period_words(seconds * 1_000_000_000));
        assert_eq!(words, ["minute", "10 minutes", "second", "day", "45 seconds"]);
        assert_eq!(rate_text(&"3 per 2s burst 3".parse().unwrap()), "3 per 2s");
    }
}
