//! The result of `simulate` as text.

use std::path::Path;

use tollgate_workbench::log::LogSummary;
use tollgate_workbench::plot::simulation_sketch;
use tollgate_workbench::simulate::{ChangeReport, HurtClient, RuleReport, SimulationReport};

use crate::colours::Colours;
use crate::policy_file;
use crate::workbench::logs::span_text;
use crate::workbench::table::{count, duration, grouped, percent, printable, table};

/// The clients and endpoints that the text lists; the JSON has more.
const MAX_LISTED: usize = 10;

pub(super) fn page(
    report: &SimulationReport,
    summary: &LogSummary,
    against: Option<&Path>,
    with_sketch: bool,
) -> String {
    let (requests, clients) = (count(report.requests, "request"), count(report.clients, "client"));
    let mut page = format!("{requests} of {clients}, {}\n", span_text(summary));
    page.push_str(&totals(report));
    push_block(&mut page, "rules", &rules(&report.rules));
    if report.rules.iter().any(|rule| rule.shadow) {
        page.push_str("  Shadow rules count what they would refuse, and refuse nothing.\n");
    }
    if report.actions.refused > 0 {
        push_block(&mut page, "endpoints with refused requests", &endpoints(report));
        push_block(&mut page, "clients with the most refused requests", &clients_table(&report.worst_clients));
        page.push_str("  Peaks are the most requests in a second, minute and hour of the clock.\n");
    }
    if let (Some(changes), Some(file)) = (&report.changes, against) {
        push_changes(&mut page, changes, &policy_file::name_of(file));
    }
    if with_sketch && report.requests > 0 {
        page.push_str(&format!("\n{}", simulation_sketch(report)));
    }
    page
}

fn totals(report: &SimulationReport) -> String {
    let actions = &report.actions;
    let mut rows = Vec::new();
    let mut push = |name: &str, requests: u64, note: String| {
        rows.push(vec![name.to_owned(), grouped(requests), percent(requests, report.requests), note]);
    };
    push("allowed", actions.allowed, String::new());
    if actions.warned > 0 {
        push("  warned", actions.warned, String::new());
    }
    if actions.delayed > 0 {
        push("  delayed", actions.delayed, format!("up to {}", duration(report.longest_delay_ns)));
    }
    let of_clients = match report.clients_refused {
        0 => String::new(),
        clients => format!("of {}", count(clients, "client")),
    };
    push("refused", actions.refused, of_clients);
    if actions.blocked > 0 {
        push("  blocked", actions.blocked, String::new());
    }
    if actions.denied > 0 {
        push("  denied", actions.denied, String::new());
    }
    let mut text = table(&rows, 1);
    if report.without_client > 0 {
        let requests = count(report.without_client, "request");
        text.push_str(&format!("  {requests} without address or user: rules with such a key do not apply to them.\n"));
    }
    if report.evictions > 0 {
        let keys = count(report.evictions, "key");
        text.push_str(&format!("  The store was full, and dropped {keys} in use: set more `entries`.\n"));
    }
    text
}

fn rules(rules: &[RuleReport]) -> Vec<Vec<String>> {
    /// A figure that is shown only if a rule has it.
    type Figure = (&'static str, fn(&RuleReport) -> u64);
    const FIGURES: [Figure; 3] =
        [("warned", |rule| rule.warned), ("delayed", |rule| rule.delayed), ("blocked", |rule| rule.blocked)];
    let shown = || FIGURES.iter().filter(|(_, figure)| rules.iter().any(|rule| figure(rule) > 0));
    let mut rows = vec![["rule", "allowed", "refused", "clients refused"].map(str::to_owned).to_vec()];
    rows[0].extend(shown().map(|(name, _)| (*name).to_owned()));
    for rule in rules {
        let shadow = if rule.shadow { " (shadow)" } else { "" };
        let name = format!("{}{shadow}", rule.rule);
        let mut row = vec![name, grouped(rule.allowed), grouped(rule.refused), grouped(rule.clients_refused)];
        row.extend(shown().map(|(_, figure)| grouped(figure(rule))));
        rows.push(row);
    }
    rows
}

fn endpoints(report: &SimulationReport) -> Vec<Vec<String>> {
    let mut rows = vec![["endpoint", "allowed", "refused", ""].map(str::to_owned).to_vec()];
    let refused = report.endpoints.iter().filter(|endpoint| endpoint.actions.refused > 0);
    for endpoint in refused.take(MAX_LISTED) {
        rows.push(vec![
            printable(&endpoint.endpoint.to_string()),
            grouped(endpoint.actions.allowed),
            grouped(endpoint.actions.refused),
            percent(endpoint.actions.refused, endpoint.actions.allowed + endpoint.actions.refused),
        ]);
    }
    rows
}

fn clients_table(clients: &[HurtClient]) -> Vec<Vec<String>> {
    let heading = ["client", "rules", "requests", "refused", "", "peak/s", "/min", "/h"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for client in clients.iter().take(MAX_LISTED) {
        let rules: Vec<&str> = client.rules.iter().map(|(rule, _)| rule.as_str()).collect();
        rows.push(vec![
            printable(&client.client.to_string()),
            if rules.is_empty() { "(deny list)".to_owned() } else { rules.join(", ") },
            grouped(client.requests),
            grouped(client.refused),
            percent(client.refused, client.requests),
            grouped(client.peaks.in_second.into()),
            grouped(client.peaks.in_minute.into()),
            grouped(client.peaks.in_hour.into()),
        ]);
    }
    rows
}

fn push_changes(page: &mut String, changes: &ChangeReport, file: &str) {
    let heading = format!("changes against {file}, which allows {}", grouped(changes.actions.allowed));
    let row = |change: &str, requests: u64, clients: u64| {
        vec![change.to_owned(), grouped(requests), format!("of {}", count(clients, "client"))]
    };
    let rows = vec![
        row("allowed there, refused here", changes.newly_refused, changes.clients_newly_refused),
        row("refused there, allowed here", changes.newly_allowed, changes.clients_newly_allowed),
    ];
    push_block(page, &heading, &rows);
    if changes.clients.is_empty() {
        return;
    }
    let mut rows = vec![["client", "requests", "newly refused", "newly allowed"].map(str::to_owned).to_vec()];
    for client in changes.clients.iter().take(MAX_LISTED) {
        rows.push(vec![
            printable(&client.client.to_string()),
            grouped(client.requests),
            grouped(client.newly_refused),
            grouped(client.newly_allowed),
        ]);
    }
    page.push('\n');
    page.push_str(&table(&rows, 1));
}

fn push_block(page: &mut String, heading: &str, rows: &[Vec<String>]) {
    let left = if rows[0].get(1).is_some_and(|cell| cell == "rules") { 2 } else { 1 };
    page.push_str(&format!("\n{}\n{}", Colours::of_stdout().heading(heading), table(rows, left)));
}
