use std::borrow::Cow;

/// Prometheus' text format, version 0.0.4, written line by line.
///
/// The usual library writes OpenMetrics, which would have to be translated: for a thousand rules both together
/// took 56 million instructions where this takes 9.
pub(crate) struct Exposition<'a> {
    text: &'a mut String,
    digits: itoa::Buffer,
}

/// What kind of metric it is.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// The labels of a sample. Values are [`escaped`] already.
pub(crate) type Labels<'l> = &'l [(&'l str, &'l str)];

impl<'a> Exposition<'a> {
    /// Behind what is there already.
    pub(crate) fn behind(text: &'a mut String) -> Exposition<'a> {
        Exposition { text, digits: itoa::Buffer::new() }
    }

    /// A counter without labels. Its name ends in `_total`.
    pub(crate) fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.describe(name, Kind::Counter, help);
        self.sample(name, &[], value);
    }

    /// A gauge without labels.
    pub(crate) fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.describe(name, Kind::Gauge, help);
        self.sample(name, &[], value);
    }

    /// A gauge without labels that shows a time. Its name ends in `_seconds`.
    pub(crate) fn gauge_seconds(&mut self, name: &str, help: &str, ns: u64) {
        self.describe(name, Kind::Gauge, help);
        self.value(name, &[], &seconds(ns));
    }

    /// A counter with one label: how often each of its values was counted.
    pub(crate) fn counter_by<'l>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        samples: impl IntoIterator<Item = (&'l str, u64)>,
    ) {
        self.describe(name, Kind::Counter, help);
        for (value, count) in samples {
            self.sample(name, &[(label, value)], count);
        }
    }

    /// Comes before the samples of a metric.
    pub(crate) fn describe(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        self.push(&["# HELP ", name, " ", help, "\n# TYPE ", name, " ", kind, "\n"]);
    }

    /// A whole number.
    pub(crate) fn sample(&mut self, name: &str, labels: Labels<'_>, value: u64) {
        self.begin(name, labels);
        self.text.push_str(self.digits.format(value));
        self.text.push('\n');
    }

    /// A number of millionths.
    pub(crate) fn millionths(&mut self, name: &str, labels: Labels<'_>, value: u64) {
        const MILLION: u64 = 1_000_000;
        self.begin(name, labels);
        self.text.push_str(self.digits.format(value / MILLION));
        self.text.push('.');
        // A leading one keeps the zeros behind the point.
        self.text.push_str(&self.digits.format(MILLION + value % MILLION)[1..]);
        self.text.push('\n');
    }

    /// A number that is written already.
    pub(crate) fn value(&mut self, name: &str, labels: Labels<'_>, value: &str) {
        self.begin(name, labels);
        self.push(&[value, "\n"]);
    }

    /// The samples of a histogram of times: how many took at most so long and longer than the bound before, how many
    /// took longer than all bounds, and how long all took together.
    pub(crate) fn durations(
        &mut self,
        name: &str,
        label: Option<(&str, &str)>,
        counts_by_bound_ns: impl Iterator<Item = (u64, u64)>,
        longer: u64,
        sum_ns: u64,
    ) {
        let own = label.as_slice();
        let [bucket_name, sum_name, count_name] = ["_bucket", "_sum", "_count"].map(|suffix| format!("{name}{suffix}"));
        let mut so_far = 0;
        let mut bucket = |exposition: &mut Self, bound: &str, more: u64| {
            so_far += more;
            let labels = [("le", bound), label.unwrap_or_default()];
            exposition.sample(&bucket_name, &labels[..=own.len()], so_far);
        };
        for (bound_ns, count) in counts_by_bound_ns {
            bucket(self, &seconds(bound_ns), count);
        }
        bucket(self, "+Inf", longer);
        self.value(&sum_name, own, &seconds(sum_ns));
        self.sample(&count_name, own, so_far);
    }

    fn begin(&mut self, name: &str, labels: Labels<'_>) {
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

/// Nanoseconds as seconds, exactly: with a point, and without zeros that say nothing.
fn seconds(ns: u64) -> String {
    const S_NS: u64 = 1_000_000_000;
    let text = format!("{}.{:09}", ns / S_NS, ns % S_NS);
    let shown = text.trim_end_matches('0').len().max(text.len() - 8);
    text[..shown].to_owned()
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

    #[test]
    fn a_histogram_has_buckets_that_add_up_and_bounds_in_seconds() {
        let mut text = String::new();
        Exposition::behind(&mut text).durations(
            "t_seconds",
            Some(("a", "x")),
            [(1_000, 2), (1_000_000_000, 3)].into_iter(),
            1,
            250,
        );
        let expected = "\
            t_seconds_bucket{le=\"0.000001\",a=\"x\"} 2\nt_seconds_bucket{le=\"1.0\",a=\"x\"} 5\n\
            t_seconds_bucket{le=\"+Inf\",a=\"x\"} 6\nt_seconds_sum{a=\"x\"} 0.00000025\nt_seconds_count{a=\"x\"} 6\n";
        assert_eq!(text, expected);
        text.clear();
        Exposition::behind(&mut text).durations("t_seconds", None, [(20_000_000, 2)].into_iter(), 0, 0);
        let expected = "\
            t_seconds_bucket{le=\"0.02\"} 2\nt_seconds_bucket{le=\"+Inf\"} 2\nt_seconds_sum 0.0\nt_seconds_count 2\n";
        assert_eq!(text, expected);
    }
}
