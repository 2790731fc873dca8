//! The headroom of rules in the metrics of a service.

use std::collections::HashMap;

/// The decisions of a rule by the part of its limit that remained, in percent: cumulative, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RuleHeadroom {
    pub(super) decisions: u64,
    pub(super) steps: Vec<(u32, u64)>,
    pub(super) refused: u64,
}

const BUCKET: &str = "tollgate_headroom_ratio_bucket";
const REFUSALS: &str = "tollgate_rule_refusals_total";

/// Reads the headroom of all rules from the text of `/metrics`.
pub(super) fn read(metrics: &str) -> HashMap<String, RuleHeadroom> {
    let mut rules: HashMap<String, RuleHeadroom> = HashMap::new();
    for (name, labels, value) in metrics.lines().filter_map(sample) {
        let Some(rule) = label(labels, "rule") else { continue };
        match name {
            BUCKET => {
                let Some(limit) = label(labels, "le") else { continue };
                let rule = rules.entry(rule).or_default();
                match percent(&limit) {
                    Some(percent) => rule.steps.push((percent, value)),
                    None => rule.decisions = value,
                }
            }
            REFUSALS => rules.entry(rule).or_default().refused += value,
            _ => {}
        }
    }
    rules
}

/// Splits a line of metrics into its name, labels and value; `None` for comments and for values that are not counts.
fn sample(line: &str) -> Option<(&str, &str, u64)> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = series.split_once('{')?;
    Some((name, labels.strip_suffix('}')?, value.parse().ok()?))
}

/// Returns the value of a label, without escapes.
fn label(labels: &str, name: &str) -> Option<String> {
    let mut rest = labels;
    loop {
        let (known, after) = rest.split_once("=\"")?;
        let (value, after) = quoted(after)?;
        if known == name {
            return Some(value);
        }
        rest = after.strip_prefix(',')?;
    }
}

/// Splits a text after a quotation mark into what is before the closing one, without escapes, and the rest.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    loop {
        match letters.next()? {
            (at, '"') => return Some((value, &text[at + 1..])),
            (_, '\\') => value.push(letters.next()?.1),
            (_, letter) => value.push(letter),
        }
    }
}

/// Returns a ratio such as `0.05` in percent; `None` for `+Inf`.
fn percent(ratio: &str) -> Option<u32> {
    let (whole, decimals) = ratio.split_once('.').unwrap_or((ratio, ""));
    format!("{whole}{decimals:0<2}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headroom_is_read_by_rule() {
        let metrics = "# HELP tollgate_headroom_ratio ..
tollgate_headroom_ratio_bucket{rule=\"a\",le=\"0\"} 4
tollgate_headroom_ratio_bucket{rule=\"a\",le=\"0.05\"} 5
tollgate_headroom_ratio_bucket{rule=\"a\",le=\"0.5\"} 9
tollgate_headroom_ratio_bucket{rule=\"a\",le=\"+Inf\"} 10
tollgate_headroom_ratio_sum{rule=\"a\"} 6.5
tollgate_rule_refusals_total{rule=\"a\",mode=\"shadow\"} 3
tollgate_headroom_ratio_bucket{rule=\"b \\\"\",le=\"+Inf\"} 1
";
        let rules = read(metrics);
        let expected = RuleHeadroom { decisions: 10, steps: vec![(0, 4), (5, 5), (50, 9)], refused: 3 };
        assert_eq!((&rules["a"], rules["b \""].decisions), (&expected, 1));
    }
}
