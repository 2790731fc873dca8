//! The result of `simulate` as JSON.

use std::path::Path;

use serde::Serialize;
use tollgate_workbench::UtcTime;
use tollgate_workbench::log::LogSummary;
use tollgate_workbench::simulate::{ChangeReport, HurtClient, RuleReport, SimulationReport};

use crate::policy_file;

#[derive(Serialize)]
pub(super) struct SimulationJson {
    lines: u64,
    unreadable: u64,
    requests: u64,
    clients: u64,
    clients_refused: u64,
    allowed: u64,
    refused: u64,
    warned: u64,
    delayed: u64,
    blocked: u64,
    denied: u64,
    longest_delay_ms: u64,
    evictions: u64,
    from: String,
    to: String,
    rules: Vec<RuleJson>,
    endpoints: Vec<EndpointJson>,
    worst_clients: Vec<ClientJson>,
    peaks: Vec<PeakJson>,
    over_time: SeriesJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    against: Option<AgainstJson>,
}

#[derive(Serialize)]
struct RuleJson {
    rule: String,
    shadow: bool,
    allowed: u64,
    refused: u64,
    warned: u64,
    delayed: u64,
    blocked: u64,
    clients_refused: u64,
}

#[derive(Serialize)]
struct EndpointJson {
    endpoint: String,
    allowed: u64,
    refused: u64,
    warned: u64,
    delayed: u64,
    blocked: u64,
}

#[derive(Serialize)]
struct ClientJson {
    client: String,
    requests: u64,
    refused: u64,
    warned: u64,
    delayed: u64,
    blocked: u64,
    first_refused: String,
    peak_per_second: u32,
    peak_per_minute: u32,
    peak_per_hour: u32,
    rules: Vec<RefusedJson>,
}

#[derive(Serialize)]
struct RefusedJson {
    rule: String,
    refused: u64,
}

#[derive(Serialize)]
struct PeakJson {
    from: u64,
    to: u64,
    never_refused: u64,
    refused: u64,
}

#[derive(Serialize)]
struct SeriesJson {
    start: String,
    interval_ms: u64,
    allowed: Vec<u64>,
    refused: Vec<u64>,
    warned: Vec<u64>,
    delayed: Vec<u64>,
    blocked: Vec<u64>,
}

#[derive(Serialize)]
struct AgainstJson {
    file: String,
    allowed: u64,
    refused: u64,
    rules: Vec<RuleJson>,
    newly_refused: u64,
    newly_allowed: u64,
    clients_newly_refused: u64,
    clients_newly_allowed: u64,
    clients: Vec<ChangedJson>,
}

#[derive(Serialize)]
struct ChangedJson {
    client: String,
    requests: u64,
    newly_refused: u64,
    newly_allowed: u64,
}

pub(super) fn answer(report: &SimulationReport, summary: &LogSummary, against: Option<&Path>) -> SimulationJson {
    let time = |time_ns: u64| UtcTime::from_ns(time_ns).to_string();
    let series = &report.over_time;
    let endpoint = |endpoint: &tollgate_workbench::simulate::EndpointReport| EndpointJson {
        endpoint: endpoint.endpoint.to_string(),
        allowed: endpoint.actions.allowed,
        refused: endpoint.actions.refused,
        warned: endpoint.actions.warned,
        delayed: endpoint.actions.delayed,
        blocked: endpoint.actions.blocked,
    };
    SimulationJson {
        lines: summary.lines,
        unreadable: summary.unreadable,
        requests: report.requests,
        clients: report.clients,
        clients_refused: report.clients_refused,
        allowed: report.actions.allowed,
        refused: report.actions.refused,
        warned: report.actions.warned,
        delayed: report.actions.delayed,
        blocked: report.actions.blocked,
        denied: report.actions.denied,
        longest_delay_ms: report.longest_delay_ns.div_ceil(1_000_000),
        evictions: report.evictions,
        from: time(summary.first_ns),
        to: time(summary.last_ns),
        rules: report.rules.iter().map(rule).collect(),
        endpoints: report.endpoints.iter().map(endpoint).collect(),
        worst_clients: report.worst_clients.iter().map(client).collect(),
        peaks: report
            .peaks
            .iter()
            .map(|bin| PeakJson { from: bin.from, to: bin.to, never_refused: bin.never_refused, refused: bin.refused })
            .collect(),
        over_time: SeriesJson {
            start: time(series.start_ns()),
            interval_ms: series.length_ns() / 1_000_000,
            allowed: report.intervals().map(|actions| actions.allowed).collect(),
            refused: report.intervals().map(|actions| actions.refused).collect(),
            warned: report.intervals().map(|actions| actions.warned).collect(),
            delayed: report.intervals().map(|actions| actions.delayed).collect(),
            blocked: report.intervals().map(|actions| actions.blocked).collect(),
        },
        against: report.changes.as_ref().zip(against).map(|(changes, file)| changed(changes, file)),
    }
}

fn rule(rule: &RuleReport) -> RuleJson {
    RuleJson {
        rule: rule.rule.clone(),
        shadow: rule.shadow,
        allowed: rule.allowed,
        refused: rule.refused,
        warned: rule.warned,
        delayed: rule.delayed,
        blocked: rule.blocked,
        clients_refused: rule.clients_refused,
    }
}

fn client(client: &HurtClient) -> ClientJson {
    let refused = |(rule, refused): &(String, u64)| RefusedJson { rule: rule.clone(), refused: *refused };
    ClientJson {
        client: client.client.to_string(),
        requests: client.requests,
        refused: client.refused,
        warned: client.warned,
        delayed: client.delayed,
        blocked: client.blocked,
        first_refused: UtcTime::from_ns(client.first_refused_ns).to_string(),
        peak_per_second: client.peaks.in_second,
        peak_per_minute: client.peaks.in_minute,
        peak_per_hour: client.peaks.in_hour,
        rules: client.rules.iter().map(refused).collect(),
    }
}

fn changed(changes: &ChangeReport, file: &Path) -> AgainstJson {
    let client = |client: &tollgate_workbench::simulate::ChangedClient| ChangedJson {
        client: client.client.to_string(),
        requests: client.requests,
        newly_refused: client.newly_refused,
        newly_allowed: client.newly_allowed,
    };
    AgainstJson {
        file: policy_file::name_of(file),
        allowed: changes.actions.allowed,
        refused: changes.actions.refused,
        rules: changes.rules.iter().map(rule).collect(),
        newly_refused: changes.newly_refused,
        newly_allowed: changes.newly_allowed,
        clients_newly_refused: changes.clients_newly_refused,
        clients_newly_allowed: changes.clients_newly_allowed,
        clients: changes.clients.iter().map(client).collect(),
    }
}
