//! Changes through the admin API of one instance apply to every instance that shares the store.
#![allow(clippy::print_stdout, reason = "the durations are worth knowing")]

use std::time::{Duration, Instant};

use tollgate_testbed::RedisServer;

use crate::client::{Response, request};
use crate::test_service::TestService;

/// Far longer than the second that messages between instances take at most.
const TIMEOUT: Duration = Duration::from_secs(20);

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

fn spend(service: &TestService) -> bool {
    service.check(r#"{"identities":{"user":"alice"}}"#)["allowed"] == true
}

fn admin_request(service: &TestService, method: &str, path: &str, body: &str) -> Response {
    let response = request(service.admin, method, path, body);
    assert_eq!(response.status, 200, "{response:?}");
    response
}

/// Waits until a condition holds, and returns how long that took.
fn wait_until(holds: impl Fn() -> bool) -> Duration {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < TIMEOUT, "timed out");
        std::thread::sleep(Duration::from_millis(1));
    }
    begun.elapsed()
}

#[test]
fn resets_and_overrides_apply_on_every_instance() {
    let redis = RedisServer::start(&[]).unwrap();
    let (here, there) = (TestService::with_policy(&policy(&redis)), TestService::with_policy(&policy(&redis)));
    wait_until(|| !spend(&here));
    // Until the key is blocked, which the other instance then caches.
    wait_until(|| there.check(r#"{"identities":{"user":"alice"}}"#)["action"] == "block");
    let blocked = admin_request(&here, "GET", "/api/keys/per-user/alice", "").json();
    assert!(blocked["blocked_for_ms"].as_u64().unwrap() > 86_000_000, "{blocked}");
    admin_request(&here, "DELETE", "/api/keys/per-user/alice", "");
    assert!(spend(&here));
    let reset = wait_until(|| spend(&there));
    wait_until(|| !spend(&there));
    admin_request(&here, "PUT", "/api/keys/per-user/alice", r#"{"limit":"unlimited","for":"1h"}"#);
    let set = wait_until(|| spend(&there));
    assert_eq!(admin_request(&there, "GET", "/api/overrides", "").json()["overrides"][0]["limit"], "unlimited");
    admin_request(&there, "DELETE", "/api/overrides/per-user/alice", "");
    let ended = wait_until(|| !spend(&here));
    println!("on the other instance: reset after {reset:?}, set after {set:?}, ended after {ended:?}");
}
