//! Values that are credentials never leave the process in plain text.

use serde_json::Value;
use tollgate_testbed::{RedisServer, Reply, TemporaryDirectory};

use crate::client::request;
use crate::running::Running;

const TOKEN: &str = "tok-4f9a61c2e8b7d350";
/// The common prefix of all tokens.
const TOKENS: &str = "tok-4f9a";
const SESSION: &str = "sid-77aa12bb98cc34dd";

const RULES: &str = "\
version: 1
identity:
  token: { bearer: true, trusted: true }
  session: { cookie: sid, trusted: true }
rules:
  - { name: per-token, key: token, limit: 4/h, overrides: { tok-4f9a61c2e8b7d351: 9/h } }
  - { name: per-session, key: [session, method], limit: 2/h }
";

/// Writes a policy whose counters are on this server.
fn shared_policy(directory: &TemporaryDirectory, name: &str, server: &RedisServer, more: &str) -> String {
    let file = directory.path().join(name);
    let store = format!("store: {{ redis: {{ nodes: [\"{}\"], deadline: 1s }} }}\n", server.address());
    std::fs::write(&file, format!("{RULES}{more}{store}")).unwrap();
    file.to_str().unwrap().to_owned()
}

fn serve(file: &str) -> Running {
    Running::serve_with(&["--grpc", "off", "--resp", "off", "--log-identities", "plain", file])
}

fn check(tollgate: &Running) -> Value {
    let headers = format!(r#"{{"authorization":"Bearer {TOKEN}","cookie":"sid={SESSION}"}}"#);
    let body = format!(r#"{{"ip":"203.0.113.9","method":"GET","headers":{headers}}}"#);
    request(tollgate.http, "POST", "/v1/check", &body).json()
}

/// The names of all keys on a server.
fn keys(server: &RedisServer) -> Vec<String> {
    match server.command(&["KEYS", "*"]).unwrap() {
        Reply::Array(names) => names.iter().filter_map(|name| name.text().map(str::to_owned)).collect(),
        other => panic!("{other:?}"),
    }
}

fn assert_no_secret(text: &str) {
    assert!(!text.contains(TOKENS) && !text.contains(SESSION), "{text}");
}

#[test]
fn redis_logs_and_admin_api_contain_no_plain_tokens_or_cookies() {
    let server = RedisServer::start(&[]).unwrap();
    let directory = TemporaryDirectory::new("secrets").unwrap();
    let mut tollgate = serve(&shared_policy(&directory, "policy.yaml", &server, ""));
    let answers: Vec<Value> = (0..3).map(|_| check(&tollgate)).collect();
    assert_eq!(answers[2]["rule"], "per-session", "{answers:?}");
    let names = keys(&server).join("\n");
    assert!(names.contains("per-token") && names.contains("per-session"), "{names}");
    assert_no_secret(&names);
    assert_no_secret(&tollgate.any_line_of("violation"));
    for path in ["/api/top", "/api/rules", "/api/overrides", "/metrics"] {
        assert_no_secret(&request(tollgate.admin, "GET", path, "").body);
    }
}

/// Writes a key file beside the policy, and returns the member that names it.
fn secret_key(directory: &TemporaryDirectory, name: &str) -> String {
    std::fs::write(directory.path().join(name), format!("{}\n", name.repeat(16))).unwrap();
    format!("secrets: {{ key_file: {name} }}\n")
}

#[test]
fn admin_api_finds_a_key_by_its_plain_value_and_by_its_hash() {
    let server = RedisServer::start(&[]).unwrap();
    let directory = TemporaryDirectory::new("secret-keys").unwrap();
    let key = secret_key(&directory, "one");
    let mut tollgate = serve(&shared_policy(&directory, "policy.yaml", &server, &key));
    check(&tollgate);
    let inspect = |key: &str| request(tollgate.admin, "GET", &format!("/api/keys/per-token/{key}"), "");
    let by_value = inspect(TOKEN);
    assert_no_secret(&by_value.body);
    let hashed = by_value.json()["key"].as_str().unwrap().to_owned();
    assert!(hashed.starts_with("hmac:") && hashed.len() == 37, "{hashed}");
    assert!(keys(&server).contains(&format!("tollgate:per-token:{{{hashed}}}")), "{:?}", keys(&server));
    assert_eq!(inspect(&hashed).json()["key"], hashed);
    assert_eq!([&inspect(&hashed), &by_value].map(|answer| answer.json()["counters"][0]["used"].clone()), [1, 1]);
    let no_key = inspect(&format!("{TOKEN}%7Cx"));
    assert_eq!(no_key.status, 400, "{no_key:?}");
    assert_no_secret(&inspect(&format!("{TOKEN}%0a")).body);
    let set = request(
        tollgate.admin,
        "PUT",
        &format!("/api/keys/per-token/{TOKEN}"),
        r#"{"limit":"unlimited","for":"10min"}"#,
    );
    assert_eq!(set.json()["key"], hashed, "{set:?}");
    assert_no_secret(&request(tollgate.admin, "GET", "/api/overrides", "").body);
    assert_no_secret(&tollgate.any_line_of("change"));
    assert_eq!(request(tollgate.admin, "DELETE", &format!("/api/overrides/per-token/{hashed}"), "").status, 200);
    assert_eq!(request(tollgate.admin, "DELETE", &format!("/api/keys/per-token/{TOKEN}"), "").status, 200);
    let after = request(tollgate.admin, "GET", &format!("/api/keys/per-token/{hashed}"), "").json();
    assert_eq!(after["counters"][0]["used"], 0, "{after}");
}

/// Waits for a condition that depends on a server, for at most ten seconds.
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..1_000 {
        if condition() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{what} did not happen within ten seconds");
}

fn is_ready(tollgate: &Running) -> bool {
    request(tollgate.http, "GET", "/readyz", "").status == 200
}

fn differs(tollgate: &Running) -> bool {
    let metrics = request(tollgate.admin, "GET", "/metrics", "").body;
    let line = metrics.lines().find(|line| line.starts_with("tollgate_secret_key_differs "));
    line.unwrap_or_else(|| panic!("{metrics}")).ends_with(" 1")
}

#[test]
fn instances_with_another_key_or_none_log_an_error_and_are_not_ready() {
    let server = RedisServer::start(&[]).unwrap();
    let directory = TemporaryDirectory::new("other-secret-keys").unwrap();
    let (one, other) = (secret_key(&directory, "one"), secret_key(&directory, "two"));
    let policy = |name: &str, key: &str| shared_policy(&directory, name, &server, key);
    let first = serve(&policy("first.yaml", &one));
    let same = serve(&policy("same.yaml", &one));
    eventually("the fingerprint", || keys(&server).iter().any(|name| name.contains("secrets")));
    assert_eq!(check(&first)["remaining"], 1);
    assert_eq!(check(&same)["remaining"], 0);
    for (name, key) in [("other.yaml", other.as_str()), ("none.yaml", "")] {
        let mut apart = serve(&policy(name, key));
        eventually("not ready", || !is_ready(&apart));
        assert!(differs(&apart));
        let expected = "error: other instances on this store hash secret values under another key";
        // The error is logged before the service stops being ready.
        while !apart.line().contains(expected) {}
        assert!(is_ready(&first) && is_ready(&same) && !differs(&first) && !differs(&same));
    }
}

#[test]
fn instance_is_ready_once_no_other_key_is_in_use() {
    let server = RedisServer::start(&[]).unwrap();
    let directory = TemporaryDirectory::new("changed-secret-key").unwrap();
    let (one, other) = (secret_key(&directory, "one"), secret_key(&directory, "two"));
    let first = serve(&shared_policy(&directory, "first.yaml", &server, &one));
    eventually("the fingerprint", || keys(&server).iter().any(|name| name.contains("secrets")));
    let mut second = serve(&shared_policy(&directory, "second.yaml", &server, &other));
    eventually("not ready", || !is_ready(&second));
    drop(first);
    // An operator can do this instead of waiting until it expires.
    server.command(&["DEL", r"tollgate:\.secrets"]).unwrap();
    eventually("ready", || is_ready(&second));
    assert!(!differs(&second));
    while !second.line().contains("hash secret values under the same key") {}
}

#[test]
fn reload_with_another_secret_key_is_rejected_and_counters_stay() {
    let directory = TemporaryDirectory::new("reloaded-secret-key").unwrap();
    let (one, other) = (secret_key(&directory, "one"), secret_key(&directory, "two"));
    let file = directory.path().join("policy.yaml");
    std::fs::write(&file, format!("{RULES}{one}")).unwrap();
    let tollgate = serve(file.to_str().unwrap());
    assert_eq!(check(&tollgate)["remaining"], 1);
    std::fs::write(&file, format!("{RULES}{other}")).unwrap();
    let reloaded = request(tollgate.admin, "POST", "/api/reload", "");
    assert!(reloaded.body.contains("with another key"), "{reloaded:?}");
    assert_eq!(check(&tollgate)["remaining"], 0);
}
