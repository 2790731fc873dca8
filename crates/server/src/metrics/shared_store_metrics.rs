use std::time::Duration;

use tollgate::redis::{BreakerState, StoreStats};

use super::exposition::{Exposition, MetricKind};

/// Writes the metrics of a shared store.
pub(crate) fn write(stats: &StoreStats, exposition: &mut Exposition<'_>) {
    exposition.counter("tollgate_store_calls_total", "Script calls sent to decide.", stats.calls);
    exposition.counter("tollgate_store_joined_total", "Checks joined into the call of another check.", stats.joined);
    exposition.counter(
        "tollgate_store_cached_refusals_total",
        "Checks refused from the local cache of refusals.",
        stats.cached_refusals,
    );
    exposition.counter("tollgate_store_refunds_total", "Refunded charges.", stats.refunds);
    exposition.counter("tollgate_store_lost_refunds_total", "Refunds that may be lost.", stats.lost_refunds);
    exposition.counter(
        "tollgate_store_uncertain_charges_total",
        "Charges with an unknown outcome.",
        stats.uncertain_charges,
    );
    let errors = stats.failures.iter().map(|(kind, count)| (*kind, *count));
    exposition.counter_by("tollgate_store_errors_total", "Failed calls, by cause.", "kind", errors);
    exposition.counter_by(
        "tollgate_fallback_decisions_total",
        "Charges decided without the store, by on_failure mode.",
        "mode",
        [("open", stats.fallbacks_open), ("closed", stats.fallbacks_closed), ("local", stats.fallbacks_local)],
    );
    write_servers(stats, exposition);
    write_debts(stats, exposition);
    write_leases(stats, exposition);
    exposition.gauge(
        "tollgate_secret_key_differs",
        "1 if other instances hash secret values under another key, else 0.",
        u64::from(stats.secret_key_differs),
    );
    write_durations(stats, exposition);
}

fn write_servers(stats: &StoreStats, exposition: &mut Exposition<'_>) {
    let failing = stats.breakers.iter().filter(|(_, state)| *state != BreakerState::Closed).count();
    exposition.gauge("tollgate_fallback_active", "Servers whose circuit breaker is not closed.", failing as u64);
    exposition.gauge("tollgate_store_servers", "Servers used so far.", stats.breakers.len() as u64);
    exposition.counter(
        "tollgate_store_breaker_opened_total",
        "How often a circuit breaker opened.",
        stats.breakers_opened,
    );
    exposition.counter(
        "tollgate_store_breaker_closed_total",
        "How often a circuit breaker closed.",
        stats.breakers_closed,
    );
}

fn write_debts(stats: &StoreStats, exposition: &mut Exposition<'_>) {
    exposition.gauge("tollgate_debts", "Keys with charges that are not yet counted on the servers.", stats.debts);
    exposition.counter("tollgate_debts_paid_total", "Debts charged to the servers.", stats.paid_debts);
    exposition.counter(
        "tollgate_debts_dropped_total",
        "Allowed charges that will never be counted.",
        stats.dropped_debts,
    );
}

fn write_leases(stats: &StoreStats, exposition: &mut Exposition<'_>) {
    exposition.counter(
        "tollgate_store_leased_decisions_total",
        "Checks decided by leased tokens, without a call.",
        stats.leased_decisions,
    );
    exposition.counter(
        "tollgate_store_lease_calls_total",
        "Script calls that leased, reported or returned tokens.",
        stats.lease_calls,
    );
    exposition.counter("tollgate_leased_tokens_total", "Tokens leased.", stats.leased_tokens);
    exposition.counter(
        "tollgate_stranded_tokens_total",
        "Leased tokens that were neither spent nor returned in time.",
        stats.stranded_tokens,
    );
    exposition.gauge("tollgate_leased_keys", "Keys with leases.", stats.leased_keys);
    exposition.gauge("tollgate_leased_tokens_held", "Leased tokens that can be spent.", stats.leased_tokens_held);
}

fn write_durations(stats: &StoreStats, exposition: &mut Exposition<'_>) {
    exposition.gauge_seconds(
        "tollgate_sync_lag_seconds",
        "Age of the oldest charge that is not yet counted on the servers.",
        ns(stats.oldest_debt),
    );
    const NAME: &str = "tollgate_store_duration_seconds";
    exposition.describe(NAME, MetricKind::Histogram, "Duration of script calls.");
    let durations = &stats.call_durations;
    let counts = durations.counts.iter().map(|(bound, count)| (ns(*bound), *count));
    exposition.durations(NAME, None, counts, durations.longer, ns(durations.sum));
}

/// Converts a duration; 64 bits hold 584 years.
fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
