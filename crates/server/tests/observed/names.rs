//! The dashboard and the alerts ask for nothing that is not there.

use std::collections::BTreeSet;

use tollgate_testbed::{RedisServer, TemporaryDirectory};

use crate::running::Running;
use crate::traffic;

const RULES: &str = include_str!("../../../../deploy/prometheus/tollgate.rules.yaml");
const ALERTS: &str = include_str!("../../../../deploy/prometheus/tollgate.alerts.yaml");
const ALERT_TESTS: &str = include_str!("../../../../deploy/prometheus/tollgate.tests.yaml");
const DASHBOARD: &str = include_str!("../../../../deploy/grafana/tollgate.json");
const RUNBOOK: &str = include_str!("../../../../docs/alerts.md");
const METRICS_PAGE: &str = include_str!("../../../../docs/metrics.md");

/// Every word that looks like a metric or a recorded series.
fn words(text: &str) -> BTreeSet<&str> {
    let is_of_word = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | ':');
    let words = text.split(|letter| !is_of_word(letter));
    words.filter(|word| word.starts_with("tollgate_") || word.contains(":tollgate_")).collect()
}

fn recorded(text: &str) -> BTreeSet<&str> {
    text.lines().filter_map(|line| line.trim().strip_prefix("- record: ")).collect()
}

fn alerts() -> Vec<&'static str> {
    ALERTS.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect()
}

/// What services have, one with each kind of store, after a little of everything.
fn metrics_of_all_stores() -> BTreeSet<String> {
    let redis = RedisServer::start(&[]).unwrap();
    let store = format!("store: {{ redis: {{ nodes: ['{}'], deadline: 5s }} }}", redis.address());
    let directory = TemporaryDirectory::new("tollgate-observed").unwrap();
    let snapshot = format!("store: {{ memory: {{ snapshot: '{}' }} }}", directory.path().join("counters").display());
    let mut names = BTreeSet::new();
    for store in ["", &snapshot, &store] {
        let service = Running::under(&traffic::policy(store));
        traffic::send(&service);
        names.extend(service.scrape().names());
    }
    names
}

#[test]
fn whatever_is_asked_for_is_there() {
    let names = metrics_of_all_stores();
    let recorded = recorded(RULES);
    assert!(recorded.len() > 5, "{recorded:?}");
    for (file, text) in [("rules", RULES), ("alerts", ALERTS), ("dashboard", DASHBOARD), ("page", METRICS_PAGE)] {
        let asked = words(text);
        assert!(asked.len() > 5, "{file}: {asked:?}");
        for word in asked {
            // A histogram's own name has no series.
            let is_histogram = names.contains(&format!("{word}_bucket"));
            let is_there = names.contains(word) || recorded.contains(word) || is_histogram;
            assert!(is_there, "{file}: there is no {word}");
        }
    }
}

#[test]
fn every_metric_is_explained() {
    let explained = words(METRICS_PAGE);
    for name in metrics_of_all_stores() {
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
        assert!(explained.contains(base) || explained.contains(name.as_str()), "docs/metrics.md has no {name}");
    }
}

#[test]
fn every_alert_is_explained_and_tested() {
    assert!(alerts().len() > 8);
    for alert in alerts() {
        let anchor = alert.to_lowercase();
        assert!(ALERTS.contains(&format!("runbook: docs/alerts.md#{anchor}\n")), "{alert} has no runbook");
        assert!(RUNBOOK.lines().any(|line| line == format!("## {alert}")), "docs/alerts.md has no {alert}");
        let tests: Vec<&str> = ALERT_TESTS.split(&format!("alertname: {alert}\n")).skip(1).collect();
        let fires = tests.iter().any(|test| test.trim_start().starts_with("exp_alerts:\n"));
        let stays_quiet = tests.iter().any(|test| test.trim_start().starts_with("exp_alerts: []"));
        assert!(fires && stays_quiet, "{alert} is not tested both ways");
    }
}

#[test]
fn the_dashboard_is_made_for_any_grafana() {
    let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD).unwrap();
    assert_eq!((&dashboard["uid"], &dashboard["id"]), (&"tollgate".into(), &serde_json::Value::Null));
    let variables: Vec<&str> =
        dashboard["templating"]["list"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert!(variables.contains(&"datasource") && variables.contains(&"job"), "{variables:?}");
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: its number is another's too");
        for target in panel["targets"].as_array().into_iter().flatten() {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{title}");
            let expression = target["expr"].as_str().unwrap();
            assert!(expression.contains("job=~\"$job\""), "{title}: {expression}");
            let has_range = expression.contains("rate(") || expression.contains("increase(");
            assert_eq!(has_range, expression.contains("[$__rate_interval]"), "{title}: {expression}");
        }
        let has_unit = panel["fieldConfig"]["defaults"]["unit"].is_string();
        assert!(has_unit || panel["type"] == "row", "{title} has no unit");
    }
}
