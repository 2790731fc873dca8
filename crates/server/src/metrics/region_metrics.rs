use std::time::Duration;

use tollgate::redis::RegionStatus;

use super::exposition::{Exposition, MetricKind, escaped};

/// Writes the metrics of the synchronisation with other regions.
pub(crate) fn write(status: &RegionStatus, exposition: &mut Exposition<'_>) {
    exposition.describe("tollgate_region_info", MetricKind::Gauge, "The region of this instance.");
    exposition.sample("tollgate_region_info", &[("region", &escaped(&status.region))], 1);
    write_share(status, exposition);
    write_epoch(status, exposition);
    exposition.gauge(
        "tollgate_region_weights_pending",
        "1 while the regions have not agreed on the policy's weights and epoch, else 0.",
        u64::from(status.is_division_pending()),
    );
    write_keys(status, exposition);
    write_exchange(status, exposition);
}

fn write_share(status: &RegionStatus, exposition: &mut Exposition<'_>) {
    const SHARE: &str = "tollgate_region_share_ratio";
    exposition.describe(SHARE, MetricKind::Gauge, "The share of this region in the rate of a limit, from 0 to 1.");
    exposition.millionths(SHARE, &[], u64::from(status.share.unwrap_or(0)) * 1_000);
    exposition.gauge(
        "tollgate_region_share_missing",
        "1 while this region has no share, so that limits apply on_failure, else 0.",
        u64::from(status.share.is_none()),
    );
}

fn write_epoch(status: &RegionStatus, exposition: &mut Exposition<'_>) {
    exposition.gauge(
        "tollgate_region_epoch_start_timestamp_seconds",
        "The start of the current epoch by the clock of the global server; 0 before it is known.",
        status.epoch_start_ms.unwrap_or(0) / 1_000,
    );
    exposition.gauge_seconds("tollgate_region_epoch_seconds", "The length of an epoch.", ns(status.epoch));
    exposition.gauge_seconds(
        "tollgate_region_sync_age_seconds",
        "Time since the last synchronisation with the global server, or else since the start.",
        ns(status.synced_before.unwrap_or(status.opened_before)),
    );
}

fn write_keys(status: &RegionStatus, exposition: &mut Exposition<'_>) {
    let borrowed = status.borrowing_keys;
    exposition.gauge("tollgate_region_borrowed_keys", "Keys whose rate includes loans in this epoch.", borrowed);
    let lent = status.lending_keys;
    exposition.gauge("tollgate_region_lent_keys", "Keys of whose rate a part is lent in this epoch.", lent);
    let reported = status.reported_keys;
    exposition.gauge("tollgate_region_reported_keys", "Keys in the last report of this instance.", reported);
}

fn write_exchange(status: &RegionStatus, exposition: &mut Exposition<'_>) {
    exposition.counter("tollgate_region_reports_total", "Reports of this instance that were accepted.", status.reports);
    exposition.counter(
        "tollgate_region_missed_reports_total",
        "Epochs for which no report of this region was accepted.",
        status.missed_reports,
    );
    exposition.counter(
        "tollgate_region_second_instance_reports_total",
        "Epochs for which another instance reported for this region, although it is in memory.",
        status.second_instance_reports,
    );
    exposition.counter(
        "tollgate_region_reads_total",
        "Epochs of which this instance has read the reports of all regions.",
        status.reads,
    );
    exposition.counter_by(
        "tollgate_region_failures_total",
        "Calls of the synchronisation that got no reply, by server.",
        "server",
        [("global", status.global_failures), ("region", status.regional_failures)],
    );
}

/// Converts a duration; 64 bits hold 584 years.
fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
