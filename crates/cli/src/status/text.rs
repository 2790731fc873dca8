//! The state of a service as text.

use crate::blocks::{push_block, push_line};
use crate::remote::{ServiceStatus, ServiceUrl};
use crate::workbench::table::{count, grouped, percent, printable, table};

pub(crate) fn page(status: &ServiceStatus, url: &ServiceUrl) -> String {
    let mut page = String::new();
    push_block(&mut page, &format!("tollgate {} at {url}", printable(&status.version)), &lines(status));
    page.push('\n');
    push_line(&mut page, format_args!("rules"));
    page.push_str(&rules(status));
    if status.omitted_rules > 0 {
        push_line(&mut page, format_args!("  and {}", count(status.omitted_rules, "rule with fewer decisions")));
    }
    if !status.clients.is_empty() {
        page.push('\n');
        push_line(&mut page, format_args!("clients with the most refused requests"));
        page.push_str(&clients(status));
    }
    page
}

fn lines(status: &ServiceStatus) -> Vec<(&'static str, String)> {
    let (refused, all) = status.refused_share();
    let decisions = &status.decisions;
    let mut lines = vec![
        ("decisions", format!("{}/s, {} refused", grouped(all), percent(refused, all))),
        ("in all", format!("{} allowed, {} refused", grouped(decisions.allowed), grouped(decisions.refused))),
        ("latency", status.latency_words()),
        ("store", format!("{}: {}", status.store.state, status.store.summary)),
        ("running since", status.started_at.clone()),
        ("policy", format!("loaded at {}", status.policy.loaded_at)),
    ];
    if let Some(reload) = status.policy.last_reload.as_ref().filter(|reload| !reload.done) {
        lines.push(("", format!("the reload at {} failed: the policy before it stays active", reload.time)));
    }
    lines
}

fn rules(status: &ServiceStatus) -> String {
    let heading = ["rule", "allowed/s", "refused/s", "allowed", "refused", "would refuse", "headroom"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(status.rules.iter().map(|rule| {
        vec![
            printable(&rule.rule),
            grouped(rule.allowed_per_second),
            grouped(rule.refused_per_second),
            grouped(rule.allowed),
            grouped(rule.refused),
            grouped(rule.would_refuse),
            rule.headroom_percent.map_or_else(|| "-".to_owned(), |percent| format!("{percent} %")),
        ]
    }));
    table(&rows, 1)
}

fn clients(status: &ServiceStatus) -> String {
    let mut rows = vec![["client", "rule", "refused", "/min", "last seen"].map(str::to_owned).to_vec()];
    rows.extend(status.clients.iter().map(|client| {
        let count = format!("≤ {}", grouped(client.count));
        let rate = grouped(client.per_minute);
        vec![printable(&client.client), printable(&client.rule), count, rate, client.last_seen.clone()]
    }));
    table(&rows, 2)
}
