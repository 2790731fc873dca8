//! Under the default settings nobody is named anywhere: what clients say of
//! themselves is sent through every front end, and looked for in all that the
//! service tells.

use tollgate_server::observe::{Identities, LogFormat};

use crate::every_front_end::Served;
use crate::observed::S_NS;

/// No answer or name of ours has any of these in it.
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

/// Everything that clients can say, on every way there is.
fn ask_all(served: &Served) {
    for (ip, path) in [
        ("203.0.113.77", "/auth/marker-path?q=marker-query"),
        ("192.0.2.55", "/marker-path"),
        ("203.0.113.77", "/slow/marker-path"),
    ] {
        for _ in 0..6 {
            let body = format!(
                r#"{{"ip":"{ip}","method":"MARKERMETHOD","path":"{path}","host":"marker-host","headers":{{"X-User":"marker-user","X-API-Key":"marker-key"}}}}"#
            );
            assert_eq!(served.post("/v1/check", &body).status, 200);
            assert_eq!(served.post("/v1/check/batch", &format!("[{body}]")).status, 200);
            served.forward_auth(&[
                ("X-Forwarded-For", ip),
                ("X-Forwarded-Method", "MARKERMETHOD"),
                ("X-Forwarded-Uri", path),
                ("X-Forwarded-Host", "marker-host"),
                ("X-User", "marker-user"),
                ("X-API-Key", "marker-key"),
            ]);
            served.resp(&format!(
                "TOLL.CHECK ip {ip} method MARKERMETHOD path {path} host marker-host user marker-user api_key marker-key"
            ));
            served.grpc(&[
                ("remote_address", ip),
                ("method", "MARKERMETHOD"),
                ("path", path),
                ("host", "marker-host"),
                ("user", "marker-user"),
                ("api_key", "marker-key"),
            ]);
            served.resp("CL.THROTTLE marker-key 1 1 3600");
            served.clock.advance(S_NS);
        }
    }
    for _ in 0..12 {
        assert_eq!(served.post("/v1/check", r#"{"path":"/marker-path/a","host":"marker-host"}"#).status, 200);
    }
    // What is wrong is nobody's name either.
    assert_eq!(served.post("/v1/check", r#"{"ip":"marker-host","marker-user":1}"#).status, 400);
    assert_eq!(served.post("/v1/check", "marker-key").status, 400);
    served.resp("TOLL.CHECK marker-user");
    served.resp("NOPE marker-key");
}

/// All that the service tells, each with its name.
fn told(served: &Served) -> Vec<(&'static str, String)> {
    let observer = served.engine.observer();
    let rules = ["login", "per-key", "by-path", "watched", "slow"];
    let top: Vec<_> = rules.iter().map(|rule| (observer.top(rule, 100), observer.near_limit(rule, 100))).collect();
    let events = observer.recent_events();
    vec![
        ("the log", served.log()),
        ("metrics", served.engine.metrics_text()),
        ("events", events.iter().map(|event| event.to_json()).collect::<Vec<_>>().join("\n")),
        ("events for debugging", format!("{events:?}")),
        ("offenders", format!("{top:?}")),
        ("the engine", format!("{:?} {observer:?}", served.engine)),
    ]
}

fn serve_and_ask(identities: Identities, format: LogFormat) -> Vec<(&'static str, String)> {
    let served = Served::under(POLICY, identities, format);
    ask_all(&served);
    served.engine.observer().look_around();
    told(&served)
}

#[test]
fn nobody_is_named_unless_an_operator_wants_it() {
    for format in [LogFormat::Json, LogFormat::Text] {
        let told = serve_and_ask(Identities::Hashed, format);
        for action in ["deny", "warn", "reject", "block", "delay"] {
            assert!(told[0].1.contains(action), "nothing was told of {action}: {}", told[0].1);
        }
        for (what, text) in &told {
            let lower = text.to_lowercase();
            for secret in SECRETS {
                assert!(!lower.contains(&secret.to_lowercase()), "{secret} is in {what}: {text}");
            }
        }
    }
}

#[test]
fn truncated_identities_are_not_whole() {
    for (what, text) in serve_and_ask(Identities::Truncated, LogFormat::Json) {
        for secret in SECRETS {
            assert!(!text.contains(secret), "{secret} is in {what}: {text}");
        }
    }
}

/// Else the tests above would find nothing because they look in the wrong place.
#[test]
fn who_is_wanted_plain_is_found() {
    let told = serve_and_ask(Identities::Plain, LogFormat::Json);
    for secret in ["203.0.113.77", "192.0.2.55", "marker-user"] {
        assert!(told[0].1.contains(secret), "{secret} is not in {}: {}", told[0].0, told[0].1);
    }
    for secret in ["203.0.113.77|marker-user", "marker-key", "/marker-path/a|marker-host"] {
        assert!(told[4].1.contains(secret), "{secret} is not in {}: {}", told[4].0, told[4].1);
    }
}
