use super::observer::Observer;
use crate::metrics::exposition::{Exposition, Kind, escaped};
use crate::observe::clients::tally::Tally;

impl Observer {
    /// Writes what stands out. No client is named: only whether there is one.
    pub(crate) fn write_metrics(&self, exposition: &mut Exposition<'_>) {
        const SHARE: &str = "tollgate_top_client_share";
        let help = "The part of a rule's refusals of the last minute that is the most frequent client's, from 0 to 1.";
        exposition.describe(SHARE, Kind::Gauge, help);
        for (rule, tally) in self.refused() {
            exposition.value(SHARE, &[("rule", &escaped(&rule))], &format!("{:?}", share(&tally)));
        }
        const BURSTS: &str = "tollgate_bursts_total";
        let help = "How often a client suddenly asked far more than it used to.";
        exposition.describe(BURSTS, Kind::Counter, help);
        for (rule, count) in &self.periodic().burst_counts {
            exposition.sample(BURSTS, &[("rule", &escaped(rule))], *count);
        }
        self.refused_calls.write(exposition);
        exposition.counter(
            "tollgate_log_lines_dropped_total",
            "Lines of the log that were lost because nobody took them.",
            self.lines_dropped(),
        );
    }
}

/// What is certain of the most frequent client's part, so that a crowd is not taken for one.
#[allow(clippy::float_arithmetic, reason = "a gauge is a float, and nothing is decided by it")]
fn share(tally: &Tally) -> f64 {
    match tally.total() {
        0 => 0.0,
        total => tally.largest() as f64 / total as f64,
    }
}
