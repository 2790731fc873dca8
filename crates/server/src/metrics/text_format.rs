use std::collections::HashSet;
use std::fmt::Write;

/// Prometheus' own text format, made of the OpenMetrics text that our library writes.
///
/// Everything that reads metrics reads this one. It differs in that a counter's
/// description has the same name as its samples, `_total` included, and in
/// that it knows neither units nor an end mark.
pub(crate) fn prometheus_text(openmetrics: &str) -> String {
    let described = |line| str::strip_prefix(line, "# TYPE ").and_then(|described| described.split_once(' '));
    let counters: HashSet<&str> = openmetrics
        .lines()
        .filter_map(described)
        .filter(|(_, metric_type)| *metric_type == "counter")
        .map(|(name, _)| name)
        .collect();
    let mut text = String::with_capacity(openmetrics.len());
    for line in openmetrics.lines().filter(|line| !line.starts_with("# UNIT ") && *line != "# EOF") {
        let written = match line.splitn(4, ' ').collect::<Vec<_>>()[..] {
            ["#", what, name, rest] if counters.contains(name) => writeln!(text, "# {what} {name}_total {rest}"),
            _ => writeln!(text, "{line}"),
        };
        written.unwrap_or_else(|error| unreachable!("a string takes whatever is written to it: {error}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_described_by_the_name_of_its_samples() {
        let openmetrics = "\
            # HELP hits How often.\n# TYPE hits counter\nhits_total{a=\"# HELP hits x\"} 1\n\
            # HELP held_bytes How much.\n# TYPE held_bytes gauge\n# UNIT held_bytes bytes\nheld_bytes 2\n# EOF\n";
        let expected = "\
            # HELP hits_total How often.\n# TYPE hits_total counter\nhits_total{a=\"# HELP hits x\"} 1\n\
            # HELP held_bytes How much.\n# TYPE held_bytes gauge\nheld_bytes 2\n";
        assert_eq!(prometheus_text(openmetrics), expected);
    }
}
