//! The result of `calibrate` as text.

use tollgate_workbench::calibrate::{Calibration, LimitProposal, OUTLIER_GAP, Outlier};
use tollgate_workbench::log::LogSummary;
use tollgate_workbench::{Quantiles, period_text, rate_text};

use crate::colours::Colours;
use crate::workbench::logs::span_text;
use crate::workbench::table::{count, grouped, percent, printable, table};

/// The outliers that the text lists; the JSON has all.
const MAX_LISTED: usize = 10;

/// The fewest clients from which a share of 99.9 % excludes any.
const FEW_CLIENTS: u64 = 1_000;

pub(super) fn page(calibration: &Calibration, summary: &LogSummary) -> String {
    let clients: Vec<String> =
        calibration.clients.iter().map(|(key, clients)| format!("{} by {key}", count(*clients, "client"))).collect();
    let requests = count(calibration.requests, "request");
    let mut page = format!("{requests}, {}, {}\n", clients.join(", "), span_text(summary));
    if !calibration.auth_endpoints.is_empty() {
        let endpoints: Vec<String> =
            calibration.auth_endpoints.iter().map(|endpoint| printable(&endpoint.to_string())).collect();
        page.push_str(&format!("authentication: {}\n", endpoints.join(", ")));
    }
    for proposal in &calibration.proposals {
        push_proposal(&mut page, proposal);
    }
    if calibration.proposals.is_empty() {
        page.push_str("\nThere are too few requests to propose a limit.\n");
    }
    if !calibration.outliers.is_empty() {
        push_outliers(&mut page, &calibration.outliers);
    }
    if calibration.proposals.iter().any(|proposal| proposal.evidence.clients < FEW_CLIENTS) {
        page.push_str("\nSome figures are of fewer than 1,000 clients: a longer log gives safer limits.\n");
    }
    page
}

fn push_proposal(page: &mut String, proposal: &LimitProposal) {
    let (evidence, touched) = (&proposal.evidence, &proposal.touched);
    let heading = format!("{} per {}: {}", proposal.class.name(), proposal.key, rate_text(&proposal.rate));
    page.push_str(&format!("\n{}\n", Colours::of_stdout().heading(&heading)));
    let columns = [&*count(evidence.clients, "client"), "half", "90 %", "99 %", "99.9 %", "all"];
    let mut rows = vec![columns.map(str::to_owned).to_vec()];
    let period = period_text(evidence.period_ns);
    let needed = format!("bucket at {}/{period}", evidence.needed_count);
    for (name, quantiles) in [
        ("most in a second", &evidence.per_second),
        ("most in a minute", &evidence.per_minute),
        ("most in an hour", &evidence.per_hour),
        ("sustained in an hour", &evidence.sustained_per_hour),
        (needed.as_str(), &evidence.burst),
    ] {
        // A short log has no sustained rates.
        if quantiles.max > 0 {
            rows.push(row(name, quantiles));
        }
    }
    page.push_str(&table(&rows, 1));
    let clients = count(evidence.clients, "well-behaved client");
    page.push_str(&match touched.requests {
        0 => format!("  refuses no request of {clients}\n"),
        requests => format!(
            "  refuses {} ({}) of {} among {clients}\n",
            count(requests, "request"),
            percent(requests, evidence.requests),
            grouped(touched.clients),
        ),
    });
    if evidence.outliers > 0 {
        let share = percent(touched.outlier_requests, evidence.outlier_requests);
        let outliers = if evidence.outliers == 1 { "client that stands out" } else { "clients that stand out" };
        page.push_str(&format!(
            "  refuses {} of {} {outliers} ({share})\n",
            count(touched.outlier_requests, "request"),
            grouped(evidence.outliers)
        ));
    }
}

fn row(name: &str, quantiles: &Quantiles) -> Vec<String> {
    let Quantiles { p50, p90, p99, p999, max } = *quantiles;
    [name.to_owned()].into_iter().chain([p50, p90, p99, p999, max].map(grouped)).collect()
}

fn push_outliers(page: &mut String, outliers: &[Outlier]) {
    let heading = "clients that stand out, and are not counted as well-behaved";
    let columns = ["client", "looks like", "class", "requests", "401/403", "peak/min", "refused"];
    let mut rows = vec![columns.map(str::to_owned).to_vec()];
    for outlier in outliers.iter().take(MAX_LISTED) {
        rows.push(vec![
            printable(&outlier.client.to_string()),
            outlier.kind.name().to_owned(),
            outlier.class.name().to_owned(),
            grouped(outlier.requests),
            grouped(outlier.denied),
            grouped(outlier.peaks.in_minute.into()),
            percent(outlier.refused, outlier.requests),
        ]);
    }
    page.push_str(&format!("\n{}\n{}", Colours::of_stdout().heading(heading), table(&rows, 3)));
    if outliers.len() > MAX_LISTED {
        page.push_str(&format!("  and {} more\n", outliers.len() - MAX_LISTED));
    }
    page.push_str(&format!("  A figure of each is at least {OUTLIER_GAP} times that of the next lower client.\n"));
}
