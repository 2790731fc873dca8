//! A little of everything that is counted.

use crate::running::Running;

/// A policy of which every kind of metric can be had. `store` is a line of it, or nothing.
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

/// Allowed, refused, warned, watched, given back.
pub(crate) fn send(service: &Running) {
    for _ in 0..8 {
        service.post("/v1/check", r#"{"ip":"203.0.113.1"}"#);
    }
    for _ in 0..3 {
        service.post("/v1/check", r#"{"ip":"203.0.113.2","path":"/login"}"#);
    }
    let answer = service.post("/v1/check", r#"{"ip":"203.0.113.3","receipt":true}"#);
    let receipt = answer["receipt"].as_str().unwrap();
    service.post("/v1/refund", &format!(r#"{{"receipt":"{receipt}"}}"#));
}
