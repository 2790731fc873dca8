use crate::client::request;
use crate::test_service::TestService;

fn metrics(service: &TestService) -> String {
    let response = request(service.admin, "GET", "/metrics", "");
    let format = "text/plain; version=0.0.4; charset=utf-8";
    assert_eq!((response.status, response.field("content-type")), (200, Some(format)));
    response.body
}

fn assert_line(metrics: &str, line: &str) {
    assert!(metrics.lines().any(|other| other == line), "no line {line} in\n{metrics}");
}

#[test]
fn healthz_and_readyz_return_200() {
    let service = TestService::start();
    for (path, body) in [("/healthz", "ok\n"), ("/readyz", "ready\n")] {
        let response = request(service.http, "GET", path, "");
        assert_eq!((response.status, response.body.as_str()), (200, body));
    }
}

#[test]
fn decisions_are_counted_by_rule_and_outcome() {
    let service = TestService::start();
    for body in
        [r#"{"ip":"203.0.113.9","cost":60}"#, r#"{"ip":"203.0.113.9"}"#, r#"{"ip":"203.0.113.9","cost":0}"#, "{}"]
    {
        service.check(body);
    }
    service.check(r#"{"ip":"203.0.113.9"}"#);
    let metrics = metrics(&service);
    for (rule, outcome, count) in
        [("per-ip", "allow", 1), ("per-ip", "reject", 2), ("per-ip", "peek", 1), ("", "allow", 1)]
    {
        let labels = format!(r#"rule="{rule}",outcome="{outcome}",frontend="http""#);
        assert_line(&metrics, &format!("tollgate_decisions_total{{{labels}}} {count}"));
    }
    assert!(!metrics.contains("203.0.113.9"), "a client is not a label");
}

#[test]
fn every_rule_and_outcome_has_a_count() {
    let service = TestService::with_policy(
        "version: 1
deny: { client_ip: 192.0.2.0/24 }
rules:
  - { name: pay, when: { path: /pay }, limit: 1/s, algorithm: leaky-bucket, queue: { size: 2 } }
  - name: login
    when: { path: /login }
    key: client_ip
    limit: 1/min
    on_limit: [ { first: 1, action: warn }, { then: reject }, { after: 2 in 1min, action: block 5min } ]
  - { name: unused, when: { path: /unused }, limit: 1/s }
",
    );
    let login = r#"{"ip":"203.0.113.9","path":"/login"}"#;
    for body in [login; 4] {
        service.check(body);
    }
    for body in [r#"{"path":"/pay"}"#, r#"{"path":"/pay"}"#, r#"{"ip":"192.0.2.1"}"#, r#"{"ip":"192.0.2.1","cost":0}"#]
    {
        service.check(body);
    }
    let metrics = metrics(&service);
    for (rule, outcome, count) in [
        ("login", "allow", 1),
        ("login", "warn", 1),
        ("login", "reject", 1),
        ("login", "block", 1),
        ("pay", "allow", 1),
        ("pay", "delay", 1),
        ("", "deny", 2),
        ("unused", "allow", 0),
    ] {
        let labels = format!(r#"rule="{rule}",outcome="{outcome}",frontend="http""#);
        assert_line(&metrics, &format!("tollgate_decisions_total{{{labels}}} {count}"));
    }
}

#[test]
fn invalid_bodies_are_not_counted_as_decisions() {
    let service = TestService::start();
    assert_eq!(request(service.http, "POST", "/v1/check", "nonsense").status, 400);
    assert_line(&metrics(&service), r#"tollgate_decision_duration_seconds_count{frontend="http"} 0"#);
}

#[test]
fn decision_durations_are_counted_in_buckets() {
    let service = TestService::start();
    service.check("{}");
    let metrics = metrics(&service);
    // The clock is stopped, so the decision took no time.
    for bound in ["0.000001", "0.0001", "0.0005", "0.02", "0.1", "+Inf"] {
        assert_line(
            &metrics,
            &format!(r#"tollgate_decision_duration_seconds_bucket{{le="{bound}",frontend="http"}} 1"#),
        );
    }
    assert_line(&metrics, r#"tollgate_decision_duration_seconds_sum{frontend="http"} 0.0"#);
}

#[test]
fn metrics_describe_the_store_and_the_build() {
    let service = TestService::start();
    let metrics = metrics(&service);
    assert_line(&metrics, "tollgate_keys 0");
    assert_line(&metrics, "tollgate_evictions_total 0");
    assert_line(&metrics, &format!("tollgate_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION")));
    let bytes = metrics.lines().find_map(|line| line.strip_prefix("tollgate_store_bytes ")).unwrap();
    assert!(bytes.parse::<u64>().unwrap() > 0);
    assert_line(&metrics, "# TYPE tollgate_evictions_total counter");
}

#[test]
fn http_and_admin_listeners_serve_the_same_metrics() {
    let service = TestService::start();
    // Reading the metrics opens connections, which are counted.
    let others = |metrics: String| -> Vec<String> {
        metrics.lines().filter(|line| !line.starts_with("tollgate_connections")).map(str::to_owned).collect()
    };
    assert_eq!(others(request(service.http, "GET", "/metrics", "").body), others(metrics(&service)));
}
