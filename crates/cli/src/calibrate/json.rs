//! The result of `calibrate` as JSON.

use serde::Serialize;
use tollgate_workbench::calibrate::{Calibration, LimitProposal, Outlier, TrafficEvidence};
use tollgate_workbench::log::LogSummary;
use tollgate_workbench::{Quantiles, UtcTime, rate_text};

#[derive(Serialize)]
pub(super) struct CalibrationJson {
    lines: u64,
    unreadable: u64,
    requests: u64,
    clients: u64,
    from: String,
    to: String,
    share_percent: serde_json::Number,
    margin_percent: u32,
    auth_endpoints: Vec<String>,
    proposals: Vec<ProposalJson>,
    outliers: Vec<OutlierJson>,
}

#[derive(Serialize)]
struct ProposalJson {
    key: String,
    class: &'static str,
    limit: String,
    evidence: EvidenceJson,
    clients_touched: u64,
    requests_touched: u64,
    outliers_touched: u64,
    outlier_requests_touched: u64,
}

#[derive(Serialize)]
struct EvidenceJson {
    clients: u64,
    requests: u64,
    outliers: u64,
    outlier_requests: u64,
    peak_per_second: QuantilesJson,
    peak_per_minute: QuantilesJson,
    peak_per_hour: QuantilesJson,
    sustained_per_hour: QuantilesJson,
    burst: QuantilesJson,
    needed_count: u64,
    period_ms: u64,
    needed_burst: u64,
}

#[derive(Serialize)]
struct QuantilesJson {
    p50: u64,
    p90: u64,
    p99: u64,
    p99_9: u64,
    max: u64,
}

#[derive(Serialize)]
struct OutlierJson {
    key: String,
    client: String,
    kind: &'static str,
    class: &'static str,
    requests: u64,
    denied: u64,
    peak_per_minute: u32,
    refused: u64,
}

pub(super) fn answer(calibration: &Calibration, summary: &LogSummary) -> CalibrationJson {
    let time = |time_ns: u64| UtcTime::from_ns(time_ns).to_string();
    CalibrationJson {
        lines: summary.lines,
        unreadable: summary.unreadable,
        requests: calibration.requests,
        clients: calibration.clients.first().map_or(0, |(_, clients)| *clients),
        from: time(calibration.first_ns),
        to: time(calibration.last_ns),
        share_percent: percent_of(calibration.share_ppm),
        margin_percent: calibration.margin_percent,
        auth_endpoints: calibration.auth_endpoints.iter().map(ToString::to_string).collect(),
        proposals: calibration.proposals.iter().map(proposal).collect(),
        outliers: calibration.outliers.iter().map(outlier).collect(),
    }
}

/// Returns parts per million in percent.
fn percent_of(ppm: u32) -> serde_json::Number {
    let text = format!("{}.{:04}", ppm / 10_000, ppm % 10_000);
    let percent: Option<f64> = text.parse().ok();
    percent.and_then(serde_json::Number::from_f64).unwrap_or_else(|| (ppm / 10_000).into())
}

fn proposal(proposal: &LimitProposal) -> ProposalJson {
    let touched = &proposal.touched;
    ProposalJson {
        key: proposal.key.clone(),
        class: proposal.class.name(),
        limit: rate_text(&proposal.rate),
        evidence: evidence(&proposal.evidence),
        clients_touched: touched.all_clients(),
        requests_touched: touched.all_requests(),
        outliers_touched: touched.outliers,
        outlier_requests_touched: touched.outlier_requests,
    }
}

fn evidence(evidence: &TrafficEvidence) -> EvidenceJson {
    EvidenceJson {
        clients: evidence.clients,
        requests: evidence.requests,
        outliers: evidence.outliers,
        outlier_requests: evidence.outlier_requests,
        peak_per_second: quantiles(&evidence.per_second),
        peak_per_minute: quantiles(&evidence.per_minute),
        peak_per_hour: quantiles(&evidence.per_hour),
        sustained_per_hour: quantiles(&evidence.sustained_per_hour),
        burst: quantiles(&evidence.burst),
        needed_count: evidence.needed_count,
        period_ms: evidence.period_ns / 1_000_000,
        needed_burst: evidence.needed_burst,
    }
}

fn quantiles(quantiles: &Quantiles) -> QuantilesJson {
    let Quantiles { p50, p90, p99, p999, max } = *quantiles;
    QuantilesJson { p50, p90, p99, p99_9: p999, max }
}

fn outlier(outlier: &Outlier) -> OutlierJson {
    OutlierJson {
        key: outlier.key.clone(),
        client: outlier.client.to_string(),
        kind: outlier.kind.name(),
        class: outlier.class.name(),
        requests: outlier.requests,
        denied: outlier.denied,
        peak_per_minute: outlier.peaks.in_minute,
        refused: outlier.refused,
    }
}
