//! The dashboard, the alerts and the documentation use only metrics that exist.

use std::collections::BTreeSet;

use tollgate_testbed::{RedisServer, TemporaryDirectory};

use crate::test_service::TestService;
use crate::traffic;

const RULES: &str = include_str!("../../../../deploy/prometheus/tollgate.rules.yaml");
const ALERTS: &str = include_str!("../../../../deploy/prometheus/tollgate.alerts.yaml");
const ALERT_TESTS: &str = include_str!("../../../../deploy/prometheus/tollgate.tests.yaml");
const DASHBOARD: &str = include_str!("../../../../deploy/grafana/tollgate.json");
const RUNBOOK: &str = include_str!("../../../../docs/alerts.md");
const METRICS_PAGE: &str = include_str!("../../../../docs/metrics.md");

/// Every word that looks like a metric or a recorded series.
fn words(text: &str) -> BTreeSet<&str> {
    let is_word_character = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | ':');
    let words = text.split(|letter| !is_word_character(letter));
    words.filter(|word| word.starts_with("tollgate_") || word.contains(":tollgate_")).collect()
}

fn recorded(text: &str) -> BTreeSet<&str> {
    text.lines().filter_map(|line| line.trim().strip_prefix("- record: ")).collect()
}

fn alerts() -> Vec<&'static str> {
    ALERTS.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect()
}

/// The metrics of services with each kind of store, after the sample traffic.
fn metrics_of_all_stores() -> BTreeSet<String> {
    let redis = RedisServer::start(&[]).unwrap();
    let store = format!("store: {{ redis: {{ nodes: ['{}'], deadline: 5s }} }}", redis.address());
    let directory = TemporaryDirectory::new("tollgate-observed").unwrap();
    let snapshot = format!("store: {{ memory: {{ snapshot: '{}' }} }}", directory.path().join("counters").display());
    let regions = format!(
        "{store}\nregions: {{ self: eu, weights: {{ eu: 1, us: 1 }}, global: {{ nodes: ['{}'] }} }}",
        redis.address()
    );
    let mut names = BTreeSet::new();
    for store in ["", &snapshot, &store, &regions] {
        let service = TestService::with_policy(&traffic::policy(store));
        traffic::send(&service);
        names.extend(service.scrape().names());
    }
    names
}

#[test]
fn metrics_in_rules_alerts_dashboard_and_page_exist() {
    let names = metrics_of_all_stores();
    let recorded = recorded(RULES);
    assert!(recorded.len() > 5, "{recorded:?}");
    for (file, text) in [("rules", RULES), ("alerts", ALERTS), ("dashboard", DASHBOARD), ("page", METRICS_PAGE)] {
        let used = words(text);
        assert!(used.len() > 5, "{file}: {used:?}");
        for word in used {
            // The name of a histogram has no series itself.
            let is_histogram = names.contains(&format!("{word}_bucket"));
            let exists = names.contains(word) || recorded.contains(word) || is_histogram;
            assert!(exists, "{file}: there is no {word}");
        }
    }
}

#[test]
fn every_metric_is_documented() {
    let documented = words(METRICS_PAGE);
    for name in metrics_of_all_stores() {
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
        assert!(documented.contains(base) || documented.contains(name.as_str()), "docs/metrics.md has no {name}");
    }
}

#[test]
fn every_alert_is_documented_and_tested() {
    assert!(alerts().len() > 8);
    for alert in alerts() {
        let anchor = alert.to_lowercase();
        assert!(ALERTS.contains(&format!("runbook: docs/alerts.md#{anchor}\n")), "{alert} has no runbook");
        assert!(RUNBOOK.lines().any(|line| line == format!("## {alert}")), "docs/alerts.md has no {alert}");
        let tests: Vec<&str> = ALERT_TESTS.split(&format!("alertname: {alert}\n")).skip(1).collect();
        let fires = tests.iter().any(|test| test.trim_start().starts_with("exp_alerts:\n"));
        let stays_silent = tests.iter().any(|test| test.trim_start().starts_with("exp_alerts: []"));
        assert!(fires && stays_silent, "{alert} needs a test in which it fires, and one in which it does not");
    }
}

#[test]
fn dashboard_selects_data_source_and_job_by_variables() {
    let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD).unwrap();
    assert_eq!((&dashboard["uid"], &dashboard["id"]), (&"tollgate".into(), &serde_json::Value::Null));
    let variables: Vec<&str> =
        dashboard["templating"]["list"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert!(variables.contains(&"datasource") && variables.contains(&"job"), "{variables:?}");
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: duplicate panel id");
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
