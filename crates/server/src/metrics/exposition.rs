use std::borrow::Cow;

/// Prometheus' text format, written line by line.
///
/// For what has as many lines as a policy has rules: there the library that
/// writes the rest takes several times as long.
pub(crate) struct Exposition<'a> {
    text: &'a mut String,
    digits: itoa::Buffer,
}

/// What kind of metric it is.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Counter,
    Histogram,
}

impl<'a> Exposition<'a> {
    /// Behind what is there already.
    pub(crate) fn behind(text: &'a mut String) -> Exposition<'a> {
        Exposition { text, digits: itoa::Buffer::new() }
    }

    /// Comes before the samples of a metric.
    pub(crate) fn describe(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Histogram => "histogram",
        };
        self.push(&["# HELP ", name, " ", help, "\n# TYPE ", name, " ", kind, "\n"]);
    }

    /// A whole number. The labels' values are [`escaped`] already.
    pub(crate) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        self.begin(name, labels);
        self.text.push_str(self.digits.format(value));
        self.text.push('\n');
    }

    /// A number of millionths.
    pub(crate) fn millionths(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        const MILLION: u64 = 1_000_000;
        self.begin(name, labels);
        self.text.push_str(self.digits.format(value / MILLION));
        self.text.push('.');
        // A leading one keeps the zeros behind the point.
        self.text.push_str(&self.digits.format(MILLION + value % MILLION)[1..]);
        self.text.push('\n');
    }

    fn begin(&mut self, name: &str, labels: &[(&str, &str)]) {
        self.text.push_str(name);
        for (at, (label, value)) in labels.iter().enumerate() {
            self.push(&[if at == 0 { "{" } else { "," }, label, "=\"", value, "\""]);
        }
        self.text.push_str(if labels.is_empty() { " " } else { "} " });
    }

    fn push(&mut self, parts: &[&str]) {
        parts.iter().for_each(|part| self.text.push_str(part));
    }
}

/// A label's value as it stands between quotes.
pub(crate) fn escaped(value: &str) -> Cow<'_, str> {
    if !value.contains(['\\', '"', '\n']) {
        return Cow::Borrowed(value);
    }
    Cow::Owned(value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_as_prometheus_wants_it() {
        let mut text = String::new();
        let mut exposition = Exposition::behind(&mut text);
        exposition.describe("hits_total", Kind::Counter, "How often.");
        exposition.sample("hits_total", &[], 0);
        exposition.sample("hits_total", &[("a", &escaped("\"\\\n")), ("b", "")], u64::MAX);
        exposition.millionths("used_sum", &[("a", "x")], 12_000_345);
        let expected = "\
            # HELP hits_total How often.\n# TYPE hits_total counter\nhits_total 0\n\
            hits_total{a=\"\\\"\\\\\\n\",b=\"\"} 18446744073709551615\nused_sum{a=\"x\"} 12.000345\n";
        assert_eq!(text, expected);
    }
}
