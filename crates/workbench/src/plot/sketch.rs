//! Charts as text, for terminals.

use std::fmt::Write;

use super::axis::{number_label, time_ticks};
use crate::compare::Comparison;
use crate::simulate::{ActionCounts, SimulationReport};
use crate::tally::time_series::TimeSeries;

/// The size of the plotting area, in letters.
const COLUMNS: usize = 66;
const ROWS: usize = 8;

const ALLOWED_LETTER: char = '█';
const REFUSED_LETTER: char = '░';

/// Sketches the allowed and refused requests over time.
#[must_use]
pub fn simulation_sketch(report: &SimulationReport) -> String {
    let columns = columns(report);
    let most = columns.iter().map(|[allowed, refused]| allowed + refused).fold(0.0, f64::max);
    let mut sketch = format!("requests/s: {ALLOWED_LETTER} allowed  {REFUSED_LETTER} refused\n");
    if most <= 0.0 {
        return sketch;
    }
    for row in (1..=ROWS).rev() {
        let label = match row {
            ROWS => number_label(rounded(most)),
            _ if row == ROWS / 2 => number_label(rounded(most / 2.0)),
            _ => String::new(),
        };
        let level = (row as f64 - 0.5) * most / ROWS as f64;
        let letter = |[allowed, refused]: &[f64; 2]| match level {
            level if level <= *allowed => ALLOWED_LETTER,
            level if level <= allowed + refused => REFUSED_LETTER,
            _ => ' ',
        };
        let letters: String = columns.iter().map(letter).collect();
        push_line(&mut sketch, &format!("{label:>8} │{}", letters.trim_end()));
    }
    push_line(&mut sketch, &format!("{:>8} └{}", 0, "─".repeat(columns.len())));
    push_times(&mut sketch, &report.over_time, columns.len());
    sketch
}

/// Sketches the most requests that each algorithm lets pass in any window, beside the limit.
#[must_use]
pub fn comparison_sketch(comparison: &Comparison) -> String {
    const BAR: usize = 40;
    let limit = comparison.rate.count();
    let most = comparison.algorithms.iter().map(|result| result.max_in_window).max().unwrap_or(0).max(limit).max(1);
    let letters = |count: u64| (count as f64 * BAR as f64 / most as f64).round() as usize;
    let window = crate::rate_text::period_words(comparison.rate.period_ns());
    let mut sketch =
        format!("most of one client in any {window}: {ALLOWED_LETTER} within {limit}  {REFUSED_LETTER} beyond\n");
    for result in &comparison.algorithms {
        let within = letters(result.max_in_window.min(limit));
        let beyond = letters(result.max_in_window) - within;
        let bar: String = [ALLOWED_LETTER].repeat(within).into_iter().chain([REFUSED_LETTER].repeat(beyond)).collect();
        push_line(&mut sketch, &format!("{:>23} {bar} {}", result.algorithm, result.max_in_window));
    }
    sketch
}

/// The rates of the columns, in requests a second.
fn columns(report: &SimulationReport) -> Vec<[f64; 2]> {
    let counts: Vec<ActionCounts> = report.intervals().collect();
    let joined = counts.len().div_ceil(COLUMNS).max(1);
    let seconds = joined as f64 * report.over_time.length_ns() as f64 / 1e9;
    let rate = |count: u64| count as f64 / seconds;
    let rates = |chunk: &[ActionCounts]| {
        let [allowed, refused] = chunk
            .iter()
            .fold([0, 0], |[allowed, refused], counts| [allowed + counts.allowed, refused + counts.refused]);
        [rate(allowed), rate(refused)]
    };
    counts.chunks(joined).map(rates).collect()
}

fn push_times<const N: usize>(sketch: &mut String, series: &TimeSeries<N>, columns: usize) {
    let joined = series.counts().len().div_ceil(COLUMNS).max(1) as u64;
    let (start_ns, column_ns) = (series.start_ns(), joined * series.length_ns());
    let (ticks, unit) = time_ticks(start_ns, start_ns + column_ns * columns as u64);
    let mut line = " ".repeat(10);
    for (time_ns, label) in ticks {
        let at = 10 + ((time_ns - start_ns) / column_ns) as usize;
        if line.len() <= at && at + label.len() <= 10 + COLUMNS {
            line = format!("{line:at$}{label}  ");
        }
    }
    push_line(sketch, &format!("{}  {unit}", line.trim_end()));
}

/// Rounds to three digits, which is what a label needs.
fn rounded(number: f64) -> f64 {
    let power = 10_f64.powf(number.log10().floor() - 2.0);
    (number / power).round() * power
}

fn push_line(sketch: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(sketch, "{line}");
}
