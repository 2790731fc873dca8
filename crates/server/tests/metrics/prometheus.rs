//! The metrics, the rules and the dashboard in a real Prometheus. `scripts/test` fetches the
//! programs, and sets their paths in PROMTOOL and PROMETHEUS.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tollgate_testbed::{RedisServer, TemporaryDirectory};

use crate::test_service::TestService;
use crate::traffic;

/// Prometheus starts in a second; a busy machine may take longer.
const TIMEOUT: Duration = Duration::from_secs(90);

/// The path of a file in `deploy`.
fn deployed(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name).canonicalize().unwrap()
}

fn program(variable: &str, name: &str) -> Command {
    Command::new(std::env::var_os(variable).unwrap_or_else(|| name.into()))
}

#[track_caller]
fn assert_success(output: &Output) {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}

/// Checks the format and the names of metrics with promtool.
fn check_metrics(text: &str) {
    let mut promtool = program("PROMTOOL", "promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert_success(&promtool.wait_with_output().unwrap());
}

#[test]
#[ignore = "needs promtool; scripts/test fetches it"]
fn promtool_accepts_the_metrics() {
    let redis = RedisServer::start(&[]).unwrap();
    let store = format!("store: {{ redis: {{ nodes: ['{}'], deadline: 5s }} }}", redis.address());
    let regions = format!(
        "{store}\nregions: {{ self: eu, weights: {{ eu: 1, us: 1 }}, global: {{ nodes: ['{}'] }} }}",
        redis.address()
    );
    for store in ["", &store, &regions] {
        let service = TestService::with_policy(&traffic::policy(store));
        // With all counters at 0, and after traffic.
        check_metrics(&service.metrics_text());
        traffic::send(&service);
        check_metrics(&service.metrics_text());
    }
}

#[test]
#[ignore = "needs promtool; scripts/test fetches it"]
fn promtool_accepts_the_rules_and_their_tests() {
    let files = ["prometheus/tollgate.rules.yaml", "prometheus/tollgate.alerts.yaml"].map(deployed);
    assert_success(&program("PROMTOOL", "promtool").args(["check", "rules"]).args(files).output().unwrap());
    let tests = deployed("prometheus/tollgate.tests.yaml");
    assert_success(&program("PROMTOOL", "promtool").args(["test", "rules"]).arg(tests).output().unwrap());
}

#[test]
#[ignore = "needs prometheus; scripts/test fetches it"]
fn prometheus_evaluates_every_rule_and_every_panel() {
    let service = TestService::with_policy(&traffic::policy(""));
    traffic::send(&service);
    let prometheus = Prometheus::scraping(service.admin);
    prometheus.wait_until("Prometheus has scraped the service", |prometheus| prometheus.has("up == 1"));
    assert!(prometheus.has(r#"tollgate_decisions_total{job="tollgate",rule="per-ip",outcome="reject"} == 3"#));
    prometheus.wait_until("every rule was evaluated", |prometheus| {
        let rules = prometheus.rules();
        assert_eq!(rules.len(), rules_in_files());
        for rule in &rules {
            assert!(rule["health"] != "err" && rule["lastError"].as_str().is_none_or(str::is_empty), "{rule}");
        }
        rules.iter().all(|rule| rule["health"] == "ok")
    });
    for expression in dashboard_expressions() {
        let response = prometheus.query(&expression);
        assert_eq!(response["status"], "success", "{expression}: {response}");
    }
}

fn rules_in_files() -> usize {
    let count = |name: &str| {
        let text = std::fs::read_to_string(deployed(name)).unwrap();
        text.lines()
            .filter(|line| line.trim().starts_with("- record: ") || line.trim().starts_with("- alert: "))
            .count()
    };
    count("prometheus/tollgate.rules.yaml") + count("prometheus/tollgate.alerts.yaml")
}

/// The queries of the dashboard as Grafana sends them, with all values of each variable selected.
fn dashboard_expressions() -> Vec<String> {
    let text = std::fs::read_to_string(deployed("grafana/tollgate.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let expressions = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    expressions
        .map(|target| target["expr"].as_str().unwrap().replace("$__rate_interval", "1m"))
        .map(|expression| ["$job", "$instance", "$rule"].iter().fold(expression, |text, name| text.replace(name, ".*")))
        .collect()
}

struct Prometheus {
    address: SocketAddr,
    process: Child,
    _directory: TemporaryDirectory,
}

impl Prometheus {
    fn scraping(service: SocketAddr) -> Prometheus {
        let directory = TemporaryDirectory::new("prometheus").unwrap();
        let configuration = directory.path().join("prometheus.yaml");
        let rules = ["prometheus/tollgate.rules.yaml", "prometheus/tollgate.alerts.yaml"].map(deployed);
        let text = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}
rule_files: ['{}', '{}']
scrape_configs: [ {{ job_name: tollgate, static_configs: [ {{ targets: ['{service}'] }} ] }} ]
",
            rules[0].display(),
            rules[1].display()
        );
        std::fs::write(&configuration, text).unwrap();
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let process = program("PROMETHEUS", "prometheus")
            .arg(format!("--config.file={}", configuration.display()))
            .arg(format!("--storage.tsdb.path={}", directory.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .arg("--log.level=error")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let mut prometheus = Prometheus { address, process, _directory: directory };
        let ended = prometheus.process.try_wait().unwrap();
        assert!(ended.is_none(), "prometheus exited at once: {ended:?}");
        prometheus
    }

    fn rules(&self) -> Vec<Value> {
        let response = self.get("/api/v1/rules").unwrap();
        let groups = response["data"]["groups"].as_array().unwrap();
        groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
    }

    /// Whether an expression has any result.
    fn has(&self, expression: &str) -> bool {
        self.query(expression)["data"]["result"].as_array().is_some_and(|result| !result.is_empty())
    }

    fn query(&self, expression: &str) -> Value {
        let mut encoded = String::new();
        expression.bytes().for_each(|byte| write!(encoded, "%{byte:02X}").unwrap());
        self.get(&format!("/api/v1/query?query={encoded}")).unwrap_or_default()
    }

    /// Returns the JSON body of a response; `None` while Prometheus does not respond.
    fn get(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect_timeout(&self.address, TIMEOUT).ok()?;
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        // In HTTP/1.0, the body ends with the connection, so there are no chunks to decode.
        stream.write_all(format!("GET {path} HTTP/1.0\r\nhost: prometheus\r\n\r\n").as_bytes()).ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        serde_json::from_str(text.split_once("\r\n\r\n")?.1).ok()
    }

    #[track_caller]
    fn wait_until(&self, condition: &str, holds: impl Fn(&Prometheus) -> bool) {
        let begun = Instant::now();
        while !holds(self) {
            assert!(begun.elapsed() < TIMEOUT, "timed out waiting until {condition}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
