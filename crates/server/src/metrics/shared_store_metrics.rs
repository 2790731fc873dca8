use std::time::Duration;

use tollgate::redis::{BreakerState, StoreStats};

use super::exposition::{Exposition, Kind};

/// Writes what a shared store says of itself.
pub(crate) fn write(stats: &StoreStats, exposition: &mut Exposition<'_>) {
    exposition.counter("tollgate_store_calls_total", "Script calls that were sent to decide.", stats.calls);
    exposition.counter("tollgate_store_joined_total", "Checks that travelled in another's call.", stats.joined);
    exposition.counter("tollgate_store_cached_refusals_total", "Checks refused from memory.", stats.cached_refusals);
    exposition.counter("tollgate_store_refunds_total", "Charges that were given back.", stats.refunds);
    exposition.counter("tollgate_store_lost_refunds_total", "Refunds that may not have arrived.", stats.lost_refunds);
    exposition.counter(
        "tollgate_store_uncertain_charges_total",
        "Charges that may have been made, or not.",
        stats.uncertain_charges,
    );
    let errors = stats.troubles.iter().map(|(kind, count)| (*kind, *count));
    exposition.counter_by("tollgate_store_errors_total", "Calls that failed, by cause.", "kind", errors);
    exposition.counter_by(
        "tollgate_fallback_decisions_total",
        "Charges decided without the store, by what the rule says.",
        "mode",
        [("open", stats.fallbacks_open), ("closed", stats.fallbacks_closed), ("local", stats.fallbacks_local)],
    );
    write_servers(stats, exposition);
    write_debts(stats, exposition);
    exposition.gauge(
        "tollgate_secret_key_differs",
        "Whether other instances hash secret values under another key.",
        u64::from(stats.secret_key_differs),
    );
    write_durations(stats, exposition);
}

fn write_servers(stats: &StoreStats, exposition: &mut Exposition<'_>) {
    let failing = stats.breakers.iter().filter(|(_, state)| *state != BreakerState::Closed).count();
    exposition.gauge("tollgate_fallback_active", "Servers that are not asked at present.", failing as u64);
    exposition.gauge("tollgate_store_servers", "Servers that were asked so far.", stats.breakers.len() as u64);
    exposition.counter(
        "tollgate_store_breaker_opened_total",
        "How often a server was given up for a while.",
        stats.breakers_opened,
    );
    exposition.counter("tollgate_store_breaker_closed_total", "How often one was asked again.", stats.breakers_closed);
}

fn write_debts(stats: &StoreStats, exposition: &mut Exposition<'_>) {
    exposition.gauge("tollgate_debts", "Keys for which the servers have yet to count what passed.", stats.debts);
    exposition.counter(
        "tollgate_debts_paid_total",
        "Debts of keys that the servers have counted since.",
        stats.paid_debts,
    );
    exposition.counter(
        "tollgate_debts_dropped_total",
        "Charges that passed and will never be counted.",
        stats.dropped_debts,
    );
}

fn write_durations(stats: &StoreStats, exposition: &mut Exposition<'_>) {
    exposition.gauge_seconds(
        "tollgate_sync_lag_seconds",
        "For how long the oldest charge waits that the servers have yet to count.",
        ns(stats.oldest_debt),
    );
    const NAME: &str = "tollgate_store_duration_seconds";
    exposition.describe(NAME, Kind::Histogram, "How long the calls took that were sent to decide.");
    let durations = &stats.call_durations;
    let counts = durations.counts.iter().map(|(bound, count)| (ns(*bound), *count));
    exposition.durations(NAME, None, counts, durations.longer, ns(durations.sum));
}

/// 584 years fit.
fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
