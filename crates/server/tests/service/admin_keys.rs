//! Which key an operator means.

use serde_json::json;

use crate::admin::ask;
use crate::running::Running;

const POLICY: &str = "
version: 1
identity:
  user: { header: x-user, trusted: true }
rules:
  - { name: per-ip, key: client_ip, limit: 3/day }
  - { name: items, when: { path: /api/* }, key: [user, route], limit: 3/day }
  - { name: everybody, limit: 1000/s }
";

fn allowed(service: &Running, ip: &str) -> bool {
    service.check(&format!(r#"{{"ip":"{ip}"}}"#))["allowed"] == true
}

#[test]
fn an_address_means_its_network() {
    let service = Running::under(POLICY);
    assert!((0..3).all(|_| allowed(&service, "2001:db8::1")) && !allowed(&service, "2001:db8::2"));
    for key in ["2001:db8::1", "2001:db8::/64", "[2001:DB8::7]:443"] {
        let seen =
            ask(&service, "GET", &format!("/api/keys/per-ip/{}", key.replace('[', "%5B").replace(']', "%5D")), "");
        let seen = seen.json();
        assert_eq!((&seen["key"], &seen["counters"][0]["used"]), (&json!("2001:db8::/64"), &json!(3)), "{seen}");
    }
    assert_eq!(ask(&service, "DELETE", "/api/keys/per-ip/2001:db8::9", "").status, 200);
    assert!(allowed(&service, "2001:db8::1"));
    let set = ask(&service, "PUT", "/api/keys/per-ip/2001:db8::1", r#"{"limit":"1/day","for":"1h"}"#);
    assert_eq!((set.status, &set.json()["key"]), (200, &json!("2001:db8::/64")), "{set:?}");
    assert!(!allowed(&service, "2001:db8::5"));
    assert_eq!(ask(&service, "DELETE", "/api/overrides/per-ip/2001:db8::3", "").status, 200);
    assert!(allowed(&service, "2001:db8::5"));
}

#[test]
fn a_path_means_the_pattern_that_it_matches() {
    let service = Running::under(POLICY);
    let check = r#"{"path":"/api/items?page=2","identities":{"user":"alice"}}"#;
    assert_eq!(service.check(check)["allowed"], true);
    for key in ["alice%7C/api/items", "alice%7C/api/*", "alice%7C/api/orders/7"] {
        let seen = ask(&service, "GET", &format!("/api/keys/items/{key}"), "").json();
        assert_eq!((&seen["key"], &seen["counters"][0]["used"]), (&json!("alice|/api/*"), &json!(1)), "{seen}");
    }
}

#[test]
fn letters_beyond_ascii_need_no_escape() {
    let service = Running::under(POLICY);
    assert_eq!(service.check(r#"{"path":"/api/x","identities":{"user":"\u7528"}}"#)["allowed"], true);
    for user in ["%e7%94%a8", r"\xe7\x94\xa8"] {
        let user = user.replace('\\', "%5C");
        let seen = ask(&service, "GET", &format!("/api/keys/items/{user}%7C/api/x"), "").json();
        assert_eq!(seen["counters"][0]["used"], 1, "{seen}");
    }
}

#[test]
fn what_can_never_be_a_key_is_refused_with_what_could() {
    let service = Running::under(POLICY);
    for (method, path, body) in [
        ("GET", "/api/keys/per-ip/1.2.3.4.5", ""),
        ("DELETE", "/api/keys/per-ip/abc", ""),
        ("PUT", "/api/keys/per-ip/2001:db8::/48", r#"{"limit":"1/day","for":"1h"}"#),
    ] {
        let response = ask(&service, method, path, body);
        assert_eq!(response.status, 400, "{path} {response:?}");
        let detail = response.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains("expected an address such as 203.0.113.9 or 2001:db8::1"), "{detail}");
    }
    for (path, expected) in [
        ("/api/keys/items/alice%7C/health", "a path that matches one: /api/*"),
        ("/api/keys/items/alice", "expected user and route with bars between them"),
        ("/api/keys/per-ip/1.2.3.4%7Cx", "expected one client_ip, as"),
        ("/api/keys/everybody/x", "its key is empty"),
    ] {
        let response = ask(&service, "GET", path, "");
        assert_eq!(response.status, 400, "{path} {response:?}");
        assert!(response.body.contains(expected), "{path}: {}", response.body);
    }
    assert_eq!(ask(&service, "GET", "/api/overrides", "").json()["overrides"], json!([]));
}

#[test]
fn a_wrong_override_says_which_member_and_in_one_line() {
    let service = Running::under(POLICY);
    for (body, member, expected) in [
        (r#"{"limit":"2/m","for":"1h"}"#, "limit", "`2/m` is no rate: expected a unit; `m` could be a minute"),
        (r#"{"limit":"2/min","for":"0s"}"#, "for", "from 1ms to 36year"),
        (r#"{"limit":"2/min","for":"100year"}"#, "for", "from 1ms to 36year"),
    ] {
        let response = ask(&service, "PUT", "/api/keys/per-ip/203.0.113.9", body);
        let problem = response.json();
        assert_eq!((response.status, &problem["member"]), (400, &json!(member)), "{problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(expected) && !detail.contains('\n'), "{detail}");
    }
    let response = ask(&service, "DELETE", "/api/overrides/per-ip/203.0.113.9", "");
    assert_eq!(response.status, 404, "{response:?}");
}
