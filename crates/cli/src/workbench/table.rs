//! Tables and figures as text.

/// Returns a number with commas between thousands: `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a number and a noun: `1 line`, `2,000 lines`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// Returns a share in percent: `2.8 %`. A share between 0 and what would be shown as 0 or 100 is not rounded to it.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "0 %".to_owned();
    }
    let per_mille = (u128::from(part) * 1_000 + u128::from(whole) / 2) / u128::from(whole);
    match per_mille {
        0 if part > 0 => "< 0.1 %".to_owned(),
        1_000 if part < whole => "> 99.9 %".to_owned(),
        per_mille if per_mille % 10 == 0 => format!("{} %", per_mille / 10),
        per_mille => format!("{}.{} %", per_mille / 10, per_mille % 10),
    }
}

/// Returns a duration with a unit: `0.6 s`, `1 min 5 s`, `2 h 30 min`.
pub(crate) fn duration(ns: u64) -> String {
    let ms = ns.div_ceil(1_000_000);
    let (s, min) = (ms / 1_000, ms / 60_000);
    let pair = |whole: u64, unit: &str, part: u64, part_unit: &str| match part {
        0 => format!("{whole} {unit}"),
        part => format!("{whole} {unit} {part} {part_unit}"),
    };
    match ms {
        0 => "none".to_owned(),
        ms if ms < 1_000 => format!("{ms} ms"),
        ms if ms < 60_000 && ms % 1_000 >= 100 => format!("{s}.{} s", ms % 1_000 / 100),
        ms if ms < 60_000 => format!("{s} s"),
        ms if ms < 3_600_000 => pair(min, "min", s % 60, "s"),
        _ => pair(min / 60, "h", min % 60, "min"),
    }
}

/// Returns lines of columns. The first `left` columns are aligned to the left, the others to the right. The first row is
/// the heading.
pub(crate) fn table(rows: &[Vec<String>], left: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|at| width(at).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells =
            row.iter().zip(&widths).enumerate().map(|(at, (cell, width))| {
                if at < left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str(&format!("  {}\n", line.trim_end()));
    }
    text
}

/// Replaces control characters: values come from requests, and could contain escape sequences for the terminal.
pub(crate) fn printable(value: &str) -> String {
    value.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short_and_exact_at_their_ends() {
        assert_eq!((grouped(7), grouped(1_000), grouped(1_234_567)), ("7".into(), "1,000".into(), "1,234,567".into()));
        assert_eq!((count(1, "line"), count(0, "line")), ("1 line".into(), "0 lines".into()));
        let shares = [(0, 5), (1, 1_000_000), (28, 1_000), (1, 2), (999_999, 1_000_000), (3, 3), (0, 0)];
        let expected = ["0 %", "< 0.1 %", "2.8 %", "50 %", "> 99.9 %", "100 %", "0 %"];
        assert_eq!(shares.map(|(part, whole)| percent(part, whole)), expected);
    }

    #[test]
    fn durations_have_at_most_two_units() {
        let ms = 1_000_000;
        let shown =
            [0, 1, 600 * ms, 59_400 * ms, 60_000 * ms, 65_000 * ms, 3_600_000 * ms, 9_000_000 * ms].map(duration);
        assert_eq!(shown, ["none", "1 ms", "600 ms", "59.4 s", "1 min", "1 min 5 s", "1 h", "2 h 30 min"]);
    }

    #[test]
    fn columns_are_aligned() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let text = table(&[row(["rule", "refused"]), row(["per-ip", "7"])], 1);
        assert_eq!(text, "  rule    refused\n  per-ip        7\n");
    }
}
