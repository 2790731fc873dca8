use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use tollgate::redis::{BreakerState, CallDurations, StoreStats};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModeLabel {
    mode: &'static str,
}

/// Writes what a shared store says of itself.
pub(crate) fn encode(stats: &StoreStats, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
    let mut write = |name: &str, help: &str, metric: &dyn EncodeMetric| {
        metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
    };
    write("store_calls", "Script calls that were sent to decide.", &ConstCounter::new(stats.calls))?;
    write("store_joined", "Checks that travelled in another's call.", &ConstCounter::new(stats.joined))?;
    write("store_cached_refusals", "Checks refused from memory.", &ConstCounter::new(stats.cached_refusals))?;
    write("store_refunds", "Charges that were given back.", &ConstCounter::new(stats.refunds))?;
    write("store_lost_refunds", "Refunds that may not have arrived.", &ConstCounter::new(stats.lost_refunds))?;
    let uncertain = ConstCounter::new(stats.uncertain_charges);
    write("store_uncertain_charges", "Charges that may have been made, or not.", &uncertain)?;
    let errors = Family::<KindLabel, Counter>::default();
    for (kind, count) in &stats.troubles {
        errors.get_or_create(&KindLabel { kind }).inc_by(*count);
    }
    write("store_errors", "Calls that failed, by cause.", &errors)?;
    let fallbacks = Family::<ModeLabel, Counter>::default();
    let by_mode =
        [("open", stats.fallbacks_open), ("closed", stats.fallbacks_closed), ("local", stats.fallbacks_local)];
    for (mode, count) in by_mode {
        fallbacks.get_or_create(&ModeLabel { mode }).inc_by(count);
    }
    write("fallback_decisions", "Charges decided without the store, by what the rule says.", &fallbacks)?;
    let failing = stats.breakers.iter().filter(|(_, state)| *state != BreakerState::Closed).count();
    write("fallback_active", "Servers that are not asked at present.", &ConstGauge::new(failing as u64))?;
    write("store_servers", "Servers that were asked so far.", &ConstGauge::new(stats.breakers.len() as u64))?;
    write(
        "store_breaker_opened",
        "How often a server was given up for a while.",
        &ConstCounter::new(stats.breakers_opened),
    )?;
    write("store_breaker_closed", "How often one was asked again.", &ConstCounter::new(stats.breakers_closed))?;
    write("debts", "Keys for which the servers have yet to count what passed.", &ConstGauge::new(stats.debts))?;
    write("debts_paid", "Debts of keys that the servers have counted since.", &ConstCounter::new(stats.paid_debts))?;
    let dropped = ConstCounter::new(stats.dropped_debts);
    write("debts_dropped", "Charges that passed and will never be counted.", &dropped)?;
    let differs = ConstGauge::new(u64::from(stats.secret_key_differs));
    write("secret_key_differs", "Whether other instances hash secret values under another key.", &differs)?;
    encode_durations(stats, encoder)
}

fn encode_durations(stats: &StoreStats, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
    let mut write = |name: &str, help: &str, metric: &dyn EncodeMetric| {
        metric.encode(encoder.encode_descriptor(name, help, Some(&Unit::Seconds), metric.metric_type())?)
    };
    let lag = ConstGauge::new(stats.oldest_debt.as_secs_f64());
    write("sync_lag", "For how long the oldest charge waits that the servers have yet to count.", &lag)?;
    write("store_duration", "How long the calls took that were sent to decide.", &Durations(&stats.call_durations))
}

/// A histogram that somebody else has counted.
#[derive(Debug)]
struct Durations<'a>(&'a CallDurations);

impl EncodeMetric for Durations<'_> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let bounded = self.0.counts.iter().map(|(bound, count)| (bound.as_secs_f64(), *count));
        let buckets: Vec<(f64, u64)> = bounded.chain([(f64::INFINITY, self.0.longer)]).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        encoder.encode_histogram::<NoLabelSet>(self.0.sum.as_secs_f64(), count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}
