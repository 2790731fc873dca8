//! Sample traffic for every kind of metric.

use crate::test_service::TestService;

/// A policy that produces every kind of metric. `store` is a line of the policy, or empty.
pub(crate) fn policy(store: &str) -> String {
    format!(
        "version: 1
{store}
rules:
  - {{ name: per-ip, key: client_ip, limit: 5/min }}
  - {{ name: watched, shadow: true, limit: 1/min }}
  - name: login
    when: {{ path: /login }}
    key: client_ip
    limit: 1/min
    on_limit: [ {{ first: 1, action: warn }}, {{ then: reject }} ]
"
    )
}

/// Sends requests that are allowed, refused, warned, refused by a shadow rule, and refunded.
pub(crate) fn send(service: &TestService) {
    for _ in 0..8 {
        service.post("/v1/check", r#"{"ip":"203.0.113.1"}"#);
    }
    for _ in 0..3 {
        service.post("/v1/check", r#"{"ip":"203.0.113.2","path":"/login"}"#);
    }
    let response = service.post("/v1/check", r#"{"ip":"203.0.113.3","receipt":true}"#);
    let receipt = response["receipt"].as_str().unwrap();
    service.post("/v1/refund", &format!(r#"{{"receipt":"{receipt}"}}"#));
}
