use std::net::TcpStream;

use crate::client::{Connection, request};
use crate::outputs::policy;
use crate::running::{Running, output};

#[test]
fn it_answers_where_it_says_it_listens() {
    let tollgate = Running::serve();
    assert_eq!(request(tollgate.http, "GET", "/healthz", "").body, "ok\n");
    let answer = request(tollgate.http, "POST", "/v1/check", r#"{"ip":"203.0.113.9"}"#);
    assert_eq!((answer.status, answer.field("content-type")), (200, Some("application/json")));
    assert_eq!(answer.json()["remaining"], 59);
    assert!(request(tollgate.admin, "GET", "/metrics", "").body.contains("\ntollgate_decisions_total{"));
}

#[test]
fn sigterm_answers_what_is_under_way_and_ends_well() {
    let mut tollgate = Running::serve();
    let body = r#"{"ip":"203.0.113.9"}"#;
    let mut connection = Connection::open(tollgate.http);
    connection.begin_check(body.len());
    tollgate.signal("TERM");
    assert_eq!(tollgate.line(), "tollgate: stopping: answering what is under way");
    while TcpStream::connect(tollgate.http).is_ok() {
        std::thread::yield_now();
    }
    connection.send(body);
    assert_eq!(connection.response().json()["allowed"], true);
    assert_eq!(tollgate.line(), "tollgate: stopped");
    assert_eq!(tollgate.exit_code(), Some(0));
}

#[test]
fn an_interrupt_ends_it_well() {
    let mut tollgate = Running::serve();
    tollgate.signal("INT");
    assert_eq!(tollgate.exit_code(), Some(0));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let mut tollgate = Running::serve();
    let mut connection = Connection::open(tollgate.http);
    connection.begin_check(2);
    tollgate.signal("TERM");
    assert_eq!(tollgate.line(), "tollgate: stopping: answering what is under way");
    tollgate.signal("TERM");
    assert_eq!(tollgate.line(), "tollgate: stopped at once: told so twice");
    assert_eq!(tollgate.exit_code(), Some(0));
}

#[test]
fn sighup_says_that_nothing_is_reloaded() {
    let mut tollgate = Running::serve();
    tollgate.signal("HUP");
    assert_eq!(tollgate.line(), "tollgate: policies are not reloaded yet: start again to read the file anew");
    assert_eq!(request(tollgate.http, "GET", "/readyz", "").status, 200);
}

#[test]
fn a_policy_file_decides() {
    let shop = policy("shop.yaml");
    let tollgate = Running::serve_with(&["--grpc", "off", "--resp", "off", &shop]);
    let check = |body: &str| request(tollgate.http, "POST", "/v1/check", body).json();
    let answer = check(r#"{"ip":"203.0.113.9","headers":{"X-User-ID":"42","X-Tier":"pro"}}"#);
    let limits: Vec<(&str, u64)> = answer["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| (rule["rule"].as_str().unwrap(), rule["limit"].as_u64().unwrap()))
        .collect();
    assert_eq!(limits, [("per-client", 40), ("per-client", 300), ("per-user", 1200), ("next-limit", 1000)]);
    let login = r#"{"ip":"203.0.113.10","method":"POST","path":"/auth/login"}"#;
    let actions: Vec<String> = (0..8).map(|_| check(login)["action"].as_str().unwrap().to_owned()).collect();
    assert_eq!(actions, ["allow", "allow", "allow", "allow", "allow", "warn", "warn", "reject"]);
    assert_eq!(check(r#"{"ip":"192.0.2.1"}"#)["action"], "deny");
    let limits = request(tollgate.http, "GET", "/v1/limits", "");
    let printed = output(&["limits", &shop, "--format", "json"]).stdout;
    assert_eq!(limits.json(), serde_json::from_slice::<serde_json::Value>(&printed).unwrap());
}

#[test]
fn a_policy_with_warnings_is_served_and_they_are_counted() {
    let mut tollgate = Running::serve_with(&["--grpc", "off", "--resp", "off", &policy("warned.yaml")]);
    let file = policy("warned.yaml");
    assert_eq!(tollgate.line(), format!("tollgate: {file} has 1 warning: `tollgate validate {file}` tells more"));
}

#[test]
fn a_redis_store_is_not_served_yet() {
    let file = policy("redis.yaml");
    let failed = output(&["serve", &file, "--http", ":0", "--admin", ":0"]);
    assert_eq!(failed.status.code(), Some(3));
    let expected = format!(
        "error: cannot serve {file}: its store is Redis, and this build has no Redis store yet\n\
         hint: say `store: memory` to keep the counters in this process\n"
    );
    assert_eq!(String::from_utf8(failed.stderr).unwrap(), expected);
    let promised = String::from_utf8(output(&["validate", &file]).stdout).unwrap();
    assert!(promised.contains("while the store fails, each instance counts on its own"), "{promised}");
}

#[test]
fn an_address_in_use_is_a_failure_with_a_hint() {
    let tollgate = Running::serve();
    let taken = tollgate.http.to_string();
    for (flag, other) in [("--http", "--admin"), ("--admin", "--http")] {
        let failed = output(&["serve", flag, &taken, other, "off"]);
        assert_eq!(failed.status.code(), Some(3));
        let said = String::from_utf8(failed.stderr).unwrap();
        let name = flag.trim_start_matches('-');
        assert!(said.starts_with(&format!("error: cannot listen on {taken} for {name}: ")), "{said}");
        assert!(said.contains(&format!("\nhint: choose another address with {flag} ADDRESS,")), "{said}");
    }
}

#[test]
fn front_ends_that_do_not_exist_are_told() {
    let tollgate = Running::serve();
    let taken = tollgate.http.to_string();
    // It would fail on the address in use if it opened it.
    let mut other = Running::serve_with(&["--grpc", "off", "--resp", &taken]);
    assert_eq!(other.line(), format!("tollgate: not served yet, and not listening: resp ({taken})"));
}
