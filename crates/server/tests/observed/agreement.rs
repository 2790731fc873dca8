//! The rule that an answer names is the rule that the metric counts, on every front end.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::messages::{self, OVER_LIMIT, ask, descriptor};
use crate::resp_client::Answer;
use crate::running::Running;

/// For each client address, three rules that come to their limit at different times.
const POLICY: &str = "version: 1
identity:
  client_ip: { trusted_proxies: [127.0.0.1] }
rules:
  - { name: per-ip, key: client_ip, limit: 6/h }
  - { name: login, when: { path: /login }, key: client_ip, limit: 2/h }
  - { name: pay, when: { path: '/pay/*' }, key: client_ip, limit: 3/h }
  - { name: watched, shadow: true, key: client_ip, limit: 1/h }
";

/// Every rule decides some of these, and refuses some.
const PATHS: [&str; 12] =
    ["/login", "/login", "/login", "/pay/1", "/pay/2", "/", "/pay/3", "/login", "/", "/", "/pay/4", "/"];

type Told = BTreeMap<(String, String), u64>;

fn tell(told: &mut Told, rule: &str, outcome: &str) {
    *told.entry((rule.to_owned(), outcome.to_owned())).or_default() += 1;
}

/// Which rule an answer over HTTP names.
fn tell_json(told: &mut Told, answer: &Value) {
    tell(told, answer["rule"].as_str().unwrap_or(""), answer["action"].as_str().unwrap());
}

fn body(ip: &str, path: &str) -> String {
    format!(r#"{{"ip":"{ip}","path":"{path}"}}"#)
}

/// Compares what answers told with what was counted, and holds that each rule both allowed and refused.
#[track_caller]
fn assert_agree(service: &Running, front_end: &str, ask: impl FnOnce(&mut Told)) {
    let before = service.scrape();
    let mut told = Told::new();
    ask(&mut told);
    assert_eq!(service.scrape().decided_since(&before, front_end), told, "{front_end}");
    let refusing: Vec<&str> =
        told.keys().filter(|(_, outcome)| outcome == "reject").map(|(rule, _)| rule.as_str()).collect();
    assert_eq!(refusing, ["login", "pay", "per-ip"], "{front_end}: {told:?}");
}

#[test]
fn on_http() {
    let service = Running::under(POLICY);
    assert_agree(&service, "http", |told| {
        for path in PATHS {
            tell_json(told, &service.post("/v1/check", &body("203.0.113.1", path)));
        }
    });
    assert_agree(&service, "http", |told| {
        let batch: Vec<String> = PATHS.map(|path| body("203.0.113.2", path)).into();
        let answers = service.post("/v1/check/batch", &format!("[{}]", batch.join(",")));
        answers.as_array().unwrap().iter().for_each(|answer| tell_json(told, answer));
    });
}

#[test]
fn on_resp() {
    let service = Running::under(POLICY);
    assert_agree(&service, "resp", |told| {
        let mut client = service.resp_client();
        for path in PATHS {
            let Answer::List(answer) = client.call(&format!("TOLL.CHECK ip 203.0.113.3 path {path}")) else { panic!() };
            let (Answer::Integer(allowed), Answer::Bulk(rule)) = (&answer[0], &answer[1]) else { panic!("{answer:?}") };
            tell(told, std::str::from_utf8(rule).unwrap(), if *allowed == 1 { "allow" } else { "reject" });
        }
    });
}

#[test]
fn for_envoy() {
    let service = Running::under(POLICY);
    assert_agree(&service, "grpc", |told| {
        for path in PATHS {
            let entries = descriptor(&[("remote_address", "203.0.113.4"), ("path", path)]);
            let status = service.should_rate_limit(&ask(&[entries])).statuses.remove(0);
            let outcome = if status.code == OVER_LIMIT { "reject" } else { "allow" };
            tell(told, &status.current_limit.unwrap().name, outcome);
        }
    });
}

#[test]
fn for_several_descriptors_the_one_that_refuses_is_counted() {
    let service = Running::under(POLICY);
    let free = descriptor(&[("remote_address", "203.0.113.5"), ("path", "/")]);
    let login = descriptor(&[("remote_address", "203.0.113.6"), ("path", "/login")]);
    let both = || ask(&[free.clone(), login.clone()]);
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
    assert_eq!(counted, Told::from([(("login".to_owned(), "reject".to_owned()), 1)]));
}

#[test]
fn for_forward_auth() {
    let service = Running::under(POLICY);
    let mut allowed = 0;
    let before = service.scrape();
    let mut told = Told::new();
    for path in PATHS {
        let response = service.forward_auth("203.0.113.7", path);
        match response.status {
            200 => allowed += 1,
            _ => tell(&mut told, response.json()["rule"].as_str().unwrap(), "reject"),
        }
    }
    let mut counted = service.scrape().decided_since(&before, "forward-auth");
    // An answer that lets pass names no rule.
    let counted_allowed: u64 =
        counted.extract_if(.., |(_, outcome), _| outcome == "allow").map(|(_, count)| count).sum();
    assert_eq!((counted, counted_allowed), (told.clone(), allowed));
    assert_eq!(told.keys().map(|(rule, _)| rule.as_str()).collect::<Vec<_>>(), ["login", "pay", "per-ip"]);
}

#[test]
fn no_front_end_counts_for_another() {
    let service = Running::under(POLICY);
    let before = service.scrape();
    service.post("/v1/check", &body("203.0.113.8", "/"));
    let after = service.scrape();
    for front_end in ["forward-auth", "grpc", "resp"] {
        assert_eq!(after.decided_since(&before, front_end), Told::new(), "{front_end}");
    }
}
