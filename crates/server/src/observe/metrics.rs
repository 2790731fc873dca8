use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

use super::observer::{Observer, RuleLabel};
use crate::observe::clients::tally::Tally;

/// Asks the observer when somebody asks for metrics. No client is named: only
/// whether there is one that stands out.
#[derive(Debug)]
pub(crate) struct ObserverMetrics(pub(crate) Arc<Observer>);

impl Collector for ObserverMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut shares = encoder.encode_descriptor(
            "top_client_share",
            "The part of a rule's refusals of the last minute that is the most frequent client's, from 0 to 1.",
            None,
            MetricType::Gauge,
        )?;
        for (rule, tally) in self.0.refused() {
            shares.encode_family(&RuleLabel { rule })?.encode_gauge(&share(&tally))?;
        }
        let bursts = &self.0.bursts;
        let help = "How often a client suddenly asked far more than it used to.";
        bursts.encode(encoder.encode_descriptor("bursts", help, None, MetricType::Counter)?)?;
        let refused = &self.0.refused_calls.0;
        let help = "Calls that a listener did not admit, by listener and why.";
        refused.encode(encoder.encode_descriptor("refused_calls", help, None, MetricType::Counter)?)?;
        let dropped = ConstCounter::new(self.0.lines_dropped());
        let help = "Lines of the log that were lost because nobody took them.";
        dropped.encode(encoder.encode_descriptor("log_lines_dropped", help, None, MetricType::Counter)?)
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
