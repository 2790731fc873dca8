//! By default, no output of the service has an identity of a client. The tests send identities through every front
//! end, and search all outputs for them.

use std::time::Duration;

use tollgate_server::observe::{EventFormat, IdentityFormat};

use crate::test_service::TestService;

/// Values that occur in no text or name of the service itself.
const SECRETS: [&str; 8] = [
    "203.0.113.77",
    "192.0.2.55",
    "marker-user",
    "marker-key",
    "marker-path",
    "marker-query",
    "MARKERMETHOD",
    "marker-host",
];

const POLICY: &str = "version: 1
identity:
  client_ip: { trusted_proxies: [127.0.0.1] }
  user: { header: X-User, trusted: true }
  api_key: { header: X-API-Key, trusted: true }
deny: { client_ip: 192.0.2.0/24 }
rules:
  - name: login
    when: { path: /auth/* }
    key: [client_ip, user]
    limit: 1/h
    on_limit: [ { first: 1, action: warn }, { then: reject }, { after: 2 in 10min, action: block 15min } ]
  - { name: per-key, key: api_key, limit: 11/h }
  - { name: by-path, key: [path, host], limit: 10/h }
  - { name: watched, key: user, limit: 1/h, shadow: true }
  - { name: slow, when: { path: /slow/* }, key: user, limit: 100/s, algorithm: leaky-bucket, queue: { size: 51 } }
";

/// Sends every kind of identity through every front end.
fn send_identities(service: &TestService) {
    for (ip, path) in [
        ("203.0.113.77", "/auth/marker-path?q=marker-query"),
        ("192.0.2.55", "/marker-path"),
        ("203.0.113.77", "/slow/marker-path"),
    ] {
        for _ in 0..6 {
            let body = format!(
                r#"{{"ip":"{ip}","method":"MARKERMETHOD","path":"{path}","host":"marker-host","headers":{{"X-User":"marker-user","X-API-Key":"marker-key"}}}}"#
            );
            assert_eq!(service.post("/v1/check", &body).status, 200);
            assert_eq!(service.post("/v1/check/batch", &format!("[{body}]")).status, 200);
            service.forward_auth(&[
                ("X-Forwarded-For", ip),
                ("X-Forwarded-Method", "MARKERMETHOD"),
                ("X-Forwarded-Uri", path),
                ("X-Forwarded-Host", "marker-host"),
                ("X-User", "marker-user"),
                ("X-API-Key", "marker-key"),
            ]);
            service.resp(&format!(
                "TOLL.CHECK ip {ip} method MARKERMETHOD path {path} host marker-host user marker-user api_key marker-key"
            ));
            service.grpc(&[
                ("remote_address", ip),
                ("method", "MARKERMETHOD"),
                ("path", path),
                ("host", "marker-host"),
                ("user", "marker-user"),
                ("api_key", "marker-key"),
            ]);
            service.resp("CL.THROTTLE marker-key 1 1 3600");
            service.clock.advance(Duration::from_secs(1));
        }
    }
    for _ in 0..12 {
        assert_eq!(service.post("/v1/check", r#"{"path":"/marker-path/a","host":"marker-host"}"#).status, 200);
    }
    // Invalid values must not be written either.
    assert_eq!(service.post("/v1/check", r#"{"ip":"marker-host","marker-user":1}"#).status, 400);
    assert_eq!(service.post("/v1/check", "marker-key").status, 400);
    service.resp("TOLL.CHECK marker-user");
    service.resp("NOPE marker-key");
}

/// Returns all outputs of the service, with their names.
fn outputs(service: &TestService) -> Vec<(&'static str, String)> {
    let observer = service.engine.observer();
    let rules = ["login", "per-key", "by-path", "watched", "slow"];
    let top: Vec<_> = rules.iter().map(|rule| (observer.top(rule, 100), observer.near_limit(rule, 100))).collect();
    let events = observer.recent_events();
    vec![
        ("the log", service.log()),
        ("metrics", service.engine.metrics_text()),
        ("events", events.iter().map(|event| event.to_json()).collect::<Vec<_>>().join("\n")),
        ("events for debugging", format!("{events:?}")),
        ("offenders", format!("{top:?}")),
        ("the engine", format!("{:?} {observer:?}", service.engine)),
    ]
}

fn outputs_after_traffic(identities: IdentityFormat, format: EventFormat) -> Vec<(&'static str, String)> {
    let service = TestService::with_policy(POLICY, identities, format);
    send_identities(&service);
    service.engine.observer().run_periodic();
    outputs(&service)
}

#[test]
fn clients_are_hashed_by_default() {
    for format in [EventFormat::Json, EventFormat::Text] {
        let outputs = outputs_after_traffic(IdentityFormat::Hashed, format);
        for action in ["deny", "warn", "reject", "block", "delay"] {
            assert!(outputs[0].1.contains(action), "no line has {action}: {}", outputs[0].1);
        }
        for (output, text) in &outputs {
            let lower = text.to_lowercase();
            for secret in SECRETS {
                assert!(!lower.contains(&secret.to_lowercase()), "{secret} is in {output}: {text}");
            }
        }
    }
}

#[test]
fn truncated_identities_are_never_complete() {
    for (output, text) in outputs_after_traffic(IdentityFormat::Truncated, EventFormat::Json) {
        for secret in SECRETS {
            assert!(!text.contains(secret), "{secret} is in {output}: {text}");
        }
    }
}

/// Shows that the tests above search the right places.
#[test]
fn plain_identities_are_found_in_the_outputs() {
    let outputs = outputs_after_traffic(IdentityFormat::Plain, EventFormat::Json);
    for secret in ["203.0.113.77", "192.0.2.55", "marker-user"] {
        assert!(outputs[0].1.contains(secret), "{secret} is not in {}: {}", outputs[0].0, outputs[0].1);
    }
    for secret in ["203.0.113.77|marker-user", "marker-key", "/marker-path/a|marker-host"] {
        assert!(outputs[4].1.contains(secret), "{secret} is not in {}: {}", outputs[4].0, outputs[4].1);
    }
}
