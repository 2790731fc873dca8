//! Keys in the paths of the admin API.

use serde_json::json;

use crate::admin::admin_request;
use crate::test_service::TestService;

const POLICY: &str = "
version: 1
identity:
  user: { header: x-user, trusted: true }
rules:
  - { name: per-ip, key: client_ip, limit: 3/day }
  - { name: items, when: { path: /api/* }, key: [user, route], limit: 3/day }
  - { name: global, limit: 1000/s }
";

fn allowed(service: &TestService, ip: &str) -> bool {
    service.check(&format!(r#"{{"ip":"{ip}"}}"#))["allowed"] == true
}

#[test]
fn address_refers_to_its_network() {
    let service = TestService::with_policy(POLICY);
    assert!((0..3).all(|_| allowed(&service, "2001:db8::1")) && !allowed(&service, "2001:db8::2"));
    for key in ["2001:db8::1", "2001:db8::/64", "[2001:DB8::7]:443"] {
        let key_state = admin_request(
            &service,
            "GET",
            &format!("/api/keys/per-ip/{}", key.replace('[', "%5B").replace(']', "%5D")),
            "",
        );
        let key_state = key_state.json();
        assert_eq!(
            (&key_state["key"], &key_state["counters"][0]["used"]),
            (&json!("2001:db8::/64"), &json!(3)),
            "{key_state}"
        );
    }
    assert_eq!(admin_request(&service, "DELETE", "/api/keys/per-ip/2001:db8::9", "").status, 200);
    assert!(allowed(&service, "2001:db8::1"));
    let set = admin_request(&service, "PUT", "/api/keys/per-ip/2001:db8::1", r#"{"limit":"1/day","for":"1h"}"#);
    assert_eq!((set.status, &set.json()["key"]), (200, &json!("2001:db8::/64")), "{set:?}");
    assert!(!allowed(&service, "2001:db8::5"));
    assert_eq!(admin_request(&service, "DELETE", "/api/overrides/per-ip/2001:db8::3", "").status, 200);
    assert!(allowed(&service, "2001:db8::5"));
}

#[test]
fn path_refers_to_the_pattern_that_it_matches() {
    let service = TestService::with_policy(POLICY);
    let check = r#"{"path":"/api/items?page=2","identities":{"user":"alice"}}"#;
    assert_eq!(service.check(check)["allowed"], true);
    for key in ["alice%7C/api/items", "alice%7C/api/*", "alice%7C/api/orders/7"] {
        let key_state = admin_request(&service, "GET", &format!("/api/keys/items/{key}"), "").json();
        assert_eq!(
            (&key_state["key"], &key_state["counters"][0]["used"]),
            (&json!("alice|/api/*"), &json!(1)),
            "{key_state}"
        );
    }
}

#[test]
fn non_ascii_identities_may_be_percent_encoded_or_escaped() {
    let service = TestService::with_policy(POLICY);
    assert_eq!(service.check(r#"{"path":"/api/x","identities":{"user":"\u7528"}}"#)["allowed"], true);
    for user in ["%e7%94%a8", r"\xe7\x94\xa8"] {
        let user = user.replace('\\', "%5C");
        let key_state = admin_request(&service, "GET", &format!("/api/keys/items/{user}%7C/api/x"), "").json();
        assert_eq!(key_state["counters"][0]["used"], 1, "{key_state}");
    }
}

#[test]
fn impossible_keys_get_400_with_the_expected_form() {
    let service = TestService::with_policy(POLICY);
    for (method, path, body) in [
        ("GET", "/api/keys/per-ip/1.2.3.4.5", ""),
        ("DELETE", "/api/keys/per-ip/abc", ""),
        ("PUT", "/api/keys/per-ip/2001:db8::/48", r#"{"limit":"1/day","for":"1h"}"#),
    ] {
        let response = admin_request(&service, method, path, body);
        assert_eq!(response.status, 400, "{path} {response:?}");
        let detail = response.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains("expected an address such as 203.0.113.9 or 2001:db8::1"), "{detail}");
    }
    for (path, expected) in [
        ("/api/keys/items/alice%7C/health", "a path that matches one: /api/*"),
        ("/api/keys/items/alice", "expected user and route with bars between them"),
        ("/api/keys/per-ip/1.2.3.4%7Cx", "expected one client_ip, as"),
        ("/api/keys/global/x", "its key is empty"),
    ] {
        let response = admin_request(&service, "GET", path, "");
        assert_eq!(response.status, 400, "{path} {response:?}");
        assert!(response.body.contains(expected), "{path}: {}", response.body);
    }
    assert_eq!(admin_request(&service, "GET", "/api/overrides", "").json()["overrides"], json!([]));
}

#[test]
fn invalid_overrides_get_400_with_the_member_and_one_line() {
    let service = TestService::with_policy(POLICY);
    for (body, member, expected) in [
        (r#"{"limit":"2/m","for":"1h"}"#, "limit", "`2/m` is not a rate: expected a unit; `m` could be a minute"),
        (r#"{"limit":"2/min","for":"0s"}"#, "for", "from 1ms to 36year"),
        (r#"{"limit":"2/min","for":"100year"}"#, "for", "from 1ms to 36year"),
    ] {
        let response = admin_request(&service, "PUT", "/api/keys/per-ip/203.0.113.9", body);
        let problem = response.json();
        assert_eq!((response.status, &problem["member"]), (400, &json!(member)), "{problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(expected) && !detail.contains('\n'), "{detail}");
    }
    let response = admin_request(&service, "DELETE", "/api/overrides/per-ip/203.0.113.9", "");
    assert_eq!(response.status, 404, "{response:?}");
}
