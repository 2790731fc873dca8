//! What an operator does on one instance holds on every instance that shares the store.
#![allow(clippy::print_stdout, reason = "how long it took is worth knowing")]

use std::time::{Duration, Instant};

use tollgate_testbed::RedisServer;

use crate::client::{Response, request};
use crate::running::Running;

/// Messages between instances take a moment; what they may take at most is a second.
const PATIENCE: Duration = Duration::from_secs(20);

fn policy(redis: &RedisServer) -> String {
    format!(
        "version: 1
store: {{ redis: {{ nodes: ['{}'], deadline: 5s }} }}
identity:
  user: {{ header: x-user, trusted: true }}
rules:
  - name: per-user
    key: user
    limit: 2/day
    on_limit: [ {{ then: reject }}, {{ after: 3 in 1day, action: block 1day }} ]
",
        redis.address()
    )
}

fn spend(service: &Running) -> bool {
    service.check(r#"{"identities":{"user":"alice"}}"#)["allowed"] == true
}

fn ask(service: &Running, method: &str, path: &str, body: &str) -> Response {
    let response = request(service.admin, method, path, body);
    assert_eq!(response.status, 200, "{response:?}");
    response
}

/// How long it took until it was so.
fn until(is_so: impl Fn() -> bool) -> Duration {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "it never was");
        std::thread::sleep(Duration::from_millis(1));
    }
    begun.elapsed()
}

#[test]
fn a_reset_and_an_override_hold_on_every_instance() {
    let redis = RedisServer::start(&[]).unwrap();
    let (here, there) = (Running::under(&policy(&redis)), Running::under(&policy(&redis)));
    until(|| !spend(&here));
    // Until it is blocked, which the other instance then remembers.
    until(|| there.check(r#"{"identities":{"user":"alice"}}"#)["action"] == "block");
    let blocked = ask(&here, "GET", "/api/keys/per-user/alice", "").json();
    assert!(blocked["blocked_for_ms"].as_u64().unwrap() > 86_000_000, "{blocked}");
    ask(&here, "DELETE", "/api/keys/per-user/alice", "");
    assert!(spend(&here));
    let reset = until(|| spend(&there));
    until(|| !spend(&there));
    ask(&here, "PUT", "/api/keys/per-user/alice", r#"{"limit":"unlimited","for":"1h"}"#);
    let set = until(|| spend(&there));
    assert_eq!(ask(&there, "GET", "/api/overrides", "").json()["overrides"][0]["limit"], "unlimited");
    ask(&there, "DELETE", "/api/overrides/per-user/alice", "");
    let ended = until(|| !spend(&here));
    println!("on the other instance: reset after {reset:?}, set after {set:?}, ended after {ended:?}");
}
