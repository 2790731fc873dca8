//! The rule that a response names is the rule that the metrics count, on every front end.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::messages::{self, OVER_LIMIT, descriptor, rate_limit_request};
use crate::resp_client::Reply;
use crate::test_service::TestService;

/// Three rules that each client address exhausts at different times, and a shadow rule.
const POLICY: &str = "version: 1
identity:
  client_ip: { trusted_proxies: [127.0.0.1] }
rules:
  - { name: per-ip, key: client_ip, limit: 6/h }
  - { name: login, when: { path: /login }, key: client_ip, limit: 2/h }
  - { name: pay, when: { path: '/pay/*' }, key: client_ip, limit: 3/h }
  - { name: watched, shadow: true, key: client_ip, limit: 1/h }
";

/// Requests of which each enforced rule decides some, and refuses some.
const PATHS: [&str; 12] =
    ["/login", "/login", "/login", "/pay/1", "/pay/2", "/", "/pay/3", "/login", "/", "/", "/pay/4", "/"];

/// The number of responses, by rule and outcome.
type Outcomes = BTreeMap<(String, String), u64>;

fn add(outcomes: &mut Outcomes, rule: &str, outcome: &str) {
    *outcomes.entry((rule.to_owned(), outcome.to_owned())).or_default() += 1;
}

/// Adds the rule and the action of a response over HTTP.
fn add_json(outcomes: &mut Outcomes, response: &Value) {
    add(outcomes, response["rule"].as_str().unwrap_or(""), response["action"].as_str().unwrap());
}

fn body(ip: &str, path: &str) -> String {
    format!(r#"{{"ip":"{ip}","path":"{path}"}}"#)
}

/// Asserts that the metrics count what the responses report, and that each enforced rule refuses some requests.
#[track_caller]
fn assert_agree(service: &TestService, front_end: &str, send: impl FnOnce(&mut Outcomes)) {
    let before = service.scrape();
    let mut outcomes = Outcomes::new();
    send(&mut outcomes);
    assert_eq!(service.scrape().decided_since(&before, front_end), outcomes, "{front_end}");
    let refusing: Vec<&str> =
        outcomes.keys().filter(|(_, outcome)| outcome == "reject").map(|(rule, _)| rule.as_str()).collect();
    assert_eq!(refusing, ["login", "pay", "per-ip"], "{front_end}: {outcomes:?}");
}

#[test]
fn http_responses_agree_with_the_metrics() {
    let service = TestService::with_policy(POLICY);
    assert_agree(&service, "http", |outcomes| {
        for path in PATHS {
            add_json(outcomes, &service.post("/v1/check", &body("203.0.113.1", path)));
        }
    });
    assert_agree(&service, "http", |outcomes| {
        let batch: Vec<String> = PATHS.map(|path| body("203.0.113.2", path)).into();
        let responses = service.post("/v1/check/batch", &format!("[{}]", batch.join(",")));
        responses.as_array().unwrap().iter().for_each(|response| add_json(outcomes, response));
    });
}

#[test]
fn resp_replies_agree_with_the_metrics() {
    let service = TestService::with_policy(POLICY);
    assert_agree(&service, "resp", |outcomes| {
        let mut client = service.resp_client();
        for path in PATHS {
            let Reply::List(parts) = client.call(&format!("TOLL.CHECK ip 203.0.113.3 path {path}")) else { panic!() };
            let (Reply::Integer(allowed), Reply::Bulk(rule)) = (&parts[0], &parts[1]) else { panic!("{parts:?}") };
            add(outcomes, std::str::from_utf8(rule).unwrap(), if *allowed == 1 { "allow" } else { "reject" });
        }
    });
}

#[test]
fn grpc_responses_agree_with_the_metrics() {
    let service = TestService::with_policy(POLICY);
    assert_agree(&service, "grpc", |outcomes| {
        for path in PATHS {
            let entries = descriptor(&[("remote_address", "203.0.113.4"), ("path", path)]);
            let status = service.should_rate_limit(&rate_limit_request(&[entries])).statuses.remove(0);
            let outcome = if status.code == OVER_LIMIT { "reject" } else { "allow" };
            add(outcomes, &status.current_limit.unwrap().name, outcome);
        }
    });
}

#[test]
fn refusing_descriptor_is_the_one_that_is_counted() {
    let service = TestService::with_policy(POLICY);
    let free = descriptor(&[("remote_address", "203.0.113.5"), ("path", "/")]);
    let login = descriptor(&[("remote_address", "203.0.113.6"), ("path", "/login")]);
    let both = || rate_limit_request(&[free.clone(), login.clone()]);
    (0..2).for_each(|_| assert_eq!(service.should_rate_limit(&both()).overall_code, messages::OK));
    let before = service.scrape();
    let refused = service.should_rate_limit(&both());
    let refusing: Vec<&str> = refused
        .statuses
        .iter()
        .filter(|status| status.code == OVER_LIMIT)
        .map(|status| status.current_limit.as_ref().unwrap().name.as_str())
        .collect();
    assert_eq!(refusing, ["login"]);
    let counted = service.scrape().decided_since(&before, "grpc");
    assert_eq!(counted, Outcomes::from([(("login".to_owned(), "reject".to_owned()), 1)]));
}

#[test]
fn forward_auth_responses_agree_with_the_metrics() {
    let service = TestService::with_policy(POLICY);
    let mut allowed = 0;
    let before = service.scrape();
    let mut outcomes = Outcomes::new();
    for path in PATHS {
        let response = service.forward_auth("203.0.113.7", path);
        match response.status {
            200 => allowed += 1,
            _ => add(&mut outcomes, response.json()["rule"].as_str().unwrap(), "reject"),
        }
    }
    let mut counted = service.scrape().decided_since(&before, "forward-auth");
    // A response that allows a request names no rule.
    let counted_allowed: u64 =
        counted.extract_if(.., |(_, outcome), _| outcome == "allow").map(|(_, count)| count).sum();
    assert_eq!((counted, counted_allowed), (outcomes.clone(), allowed));
    assert_eq!(outcomes.keys().map(|(rule, _)| rule.as_str()).collect::<Vec<_>>(), ["login", "pay", "per-ip"]);
}

#[test]
fn decisions_count_for_their_own_front_end_only() {
    let service = TestService::with_policy(POLICY);
    let before = service.scrape();
    service.post("/v1/check", &body("203.0.113.8", "/"));
    let after = service.scrape();
    for front_end in ["forward-auth", "grpc", "resp"] {
        assert_eq!(after.decided_since(&before, front_end), Outcomes::new(), "{front_end}");
    }
}
