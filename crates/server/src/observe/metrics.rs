use super::observer::Observer;
use crate::metrics::exposition::{Exposition, MetricKind, escaped};
use crate::observe::clients::tally::ClientTally;

impl Observer {
    /// Writes metrics about clients, without naming any.
    pub(crate) fn write_metrics(&self, exposition: &mut Exposition<'_>) {
        const SHARE: &str = "tollgate_top_client_share";
        let help = "Share of a rule's refusals of the last minute caused by the most frequent client, from 0 to 1.";
        exposition.describe(SHARE, MetricKind::Gauge, help);
        for (rule, tally) in self.refused() {
            exposition.value(SHARE, &[("rule", &escaped(&rule))], &format!("{:?}", share(&tally)));
        }
        const BURSTS: &str = "tollgate_bursts_total";
        let help = "How often a client suddenly sent far more requests than before.";
        exposition.describe(BURSTS, MetricKind::Counter, help);
        for (rule, count) in &self.periodic().burst_counts {
            exposition.sample(BURSTS, &[("rule", &escaped(rule))], *count);
        }
        self.refused_calls.write(exposition);
        exposition.counter(
            "tollgate_log_lines_dropped_total",
            "Log lines dropped because stderr was not read.",
            self.lines_dropped(),
        );
    }
}

/// Returns the certain share of the most frequent client, so that many clients do not appear as one.
#[allow(clippy::float_arithmetic, reason = "a gauge is a float, and nothing is decided by it")]
fn share(tally: &ClientTally) -> f64 {
    match tally.total() {
        0 => 0.0,
        total => tally.largest() as f64 / total as f64,
    }
}
