//! Scales of axes: their ticks and labels.

use crate::tally::{HOUR_NS, MINUTE_NS, SECOND_NS};
use crate::utc_time::UtcTime;

/// A linear or logarithmic scale from its smallest to its largest value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) is_logarithmic: bool,
}

impl Scale {
    /// A scale from 0 to a round number above `largest`.
    pub(super) fn linear(largest: f64) -> Scale {
        let step = round_step(largest.max(1e-9) / 5.0);
        Scale { from: 0.0, to: (largest / step).ceil().max(1.0) * step, is_logarithmic: false }
    }

    /// A scale of counts from below 1 to a power of ten above `largest`.
    pub(super) fn logarithmic(largest: f64) -> Scale {
        Scale { from: 0.5, to: 10_f64.powf(largest.max(1.0).log10().ceil().max(1.0)), is_logarithmic: true }
    }

    /// Returns where a value is, from 0 to 1.
    pub(super) fn position(&self, value: f64) -> f32 {
        let value = value.clamp(self.from, self.to);
        let position = if self.is_logarithmic {
            (value.ln() - self.from.ln()) / (self.to.ln() - self.from.ln())
        } else {
            (value - self.from) / (self.to - self.from)
        };
        position as f32
    }

    /// Returns the values with labels.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if self.is_logarithmic {
            let powers = 0..=self.to.log10().round() as i32;
            return powers.map(|power| 10_f64.powi(power)).collect();
        }
        let step = round_step((self.to - self.from) / 5.0);
        let count = ((self.to - self.from) / step).round() as u32;
        (0..=count).map(|at| self.from + f64::from(at) * step).collect()
    }
}

/// Returns 1, 2 or 5 times a power of ten, at least as large as `step`.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= step * 0.999_999);
    factor.unwrap_or(10.0) * power
}

/// Returns a number as a label: `0.5`, `12`, `1.5k`, `20M`.
pub(super) fn number_label(number: f64) -> String {
    let (scaled, unit) = match number {
        number if number >= 1e9 => (number / 1e9, "G"),
        number if number >= 1e6 => (number / 1e6, "M"),
        number if number >= 1e4 => (number / 1e3, "k"),
        number => (number, ""),
    };
    let digits = if scaled >= 100.0 { 0 } else { 2 };
    let text = format!("{scaled:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

/// Returns the ticks of a span of time: round times, each with its label, and the unit of the labels.
pub(super) fn time_ticks(from_ns: u64, to_ns: u64) -> (Vec<(u64, String)>, &'static str) {
    const MAX_TICKS: u64 = 8;
    const STEPS_NS: [u64; 22] = [
        SECOND_NS / 100,
        SECOND_NS / 20,
        SECOND_NS / 10,
        SECOND_NS / 5,
        SECOND_NS / 2,
        SECOND_NS,
        5 * SECOND_NS,
        10 * SECOND_NS,
        30 * SECOND_NS,
        MINUTE_NS,
        5 * MINUTE_NS,
        10 * MINUTE_NS,
        30 * MINUTE_NS,
        HOUR_NS,
        3 * HOUR_NS,
        6 * HOUR_NS,
        12 * HOUR_NS,
        24 * HOUR_NS,
        2 * 24 * HOUR_NS,
        7 * 24 * HOUR_NS,
        28 * 24 * HOUR_NS,
        364 * 24 * HOUR_NS,
    ];
    let span_ns = to_ns.saturating_sub(from_ns);
    let step_ns = STEPS_NS.into_iter().find(|step_ns| span_ns / step_ns < MAX_TICKS).unwrap_or(STEPS_NS[21]);
    let first = from_ns.div_ceil(step_ns);
    let times = (first..).map(|nth| nth.saturating_mul(step_ns)).take_while(|time_ns| *time_ns <= to_ns);
    let label = |time_ns: u64| {
        let time = UtcTime::from_ns(time_ns);
        match step_ns {
            step_ns if step_ns >= 24 * HOUR_NS => time.date(),
            step_ns if step_ns >= MINUTE_NS => time.clock()[..5].to_owned(),
            step_ns if step_ns >= SECOND_NS => time.clock(),
            _ => format!("{}.{:02}", &time.clock()[6..], time_ns % SECOND_NS / 10_000_000),
        }
    };
    let unit = match step_ns {
        step_ns if step_ns >= 24 * HOUR_NS => "day (UTC)",
        step_ns if step_ns >= SECOND_NS => "time of day (UTC)",
        _ => "seconds",
    };
    (times.take(20).map(|time_ns| (time_ns, label(time_ns))).collect(), unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_have_round_ticks_that_include_the_largest_value() {
        for (largest, to, count) in [(0.3, 0.3, 4), (7.0, 8.0, 5), (200.0, 200.0, 5), (1_234.0, 1_500.0, 4)] {
            let scale = Scale::linear(largest);
            assert!((scale.to - to).abs() < 1e-9, "{largest}: {}", scale.to);
            assert_eq!(scale.ticks().len(), count, "{largest}: {:?}", scale.ticks());
        }
        assert_eq!(Scale::logarithmic(250.0).ticks(), [1.0, 10.0, 100.0, 1_000.0]);
        assert!(Scale::logarithmic(0.0).position(0.0) < 1e-6);
    }

    #[test]
    fn numbers_have_short_labels() {
        let labels: Vec<String> = [0.5, 12.0, 9_999.0, 15_000.0, 2e7, 3e9].map(number_label).into();
        assert_eq!(labels, ["0.5", "12", "9999", "15k", "20M", "3G"]);
    }

    #[test]
    fn times_are_labelled_in_the_unit_of_their_step() {
        let start_ns = 1_767_225_600 * SECOND_NS;
        let labels = |span_ns| time_ticks(start_ns, start_ns + span_ns);
        let (ticks, unit) = labels(3 * HOUR_NS);
        assert_eq!((ticks.len(), ticks[1].1.as_str(), unit), (7, "00:30", "time of day (UTC)"));
        assert_eq!(labels(10 * 24 * HOUR_NS).0[1].1, "2026-01-03");
        assert_eq!(labels(SECOND_NS).0[1].1, "00.20");
        assert_eq!(labels(0).0.len(), 1);
    }
}
