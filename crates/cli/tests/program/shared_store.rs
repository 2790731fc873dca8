//! A policy with its counters on Redis.

use std::time::Duration;

use serde_json::Value;
use tollgate_testbed::{RedisServer, TemporaryDirectory};

use crate::client::request;
use crate::running::{Running, output};

fn policy(directory: &TemporaryDirectory, server: &str) -> String {
    let file = directory.path().join("policy.yaml");
    let rules = "version: 1\nrules:\n  - { name: per-ip, key: client_ip, limit: 4/h }\n";
    let store = format!("store: {{ redis: {{ nodes: [\"{server}\"], deadline: 1s, fallback_share: 1/4 }} }}\n");
    std::fs::write(&file, format!("{rules}{store}")).unwrap();
    file.to_str().unwrap().to_owned()
}

fn serve(file: &str) -> Running {
    Running::serve_with(&["--grpc", "off", "--resp", "off", file])
}

fn check(tollgate: &Running) -> Value {
    request(tollgate.http, "POST", "/v1/check", r#"{"ip":"203.0.113.9"}"#).json()
}

fn metric(tollgate: &Running, name: &str) -> String {
    let metrics = request(tollgate.admin, "GET", "/metrics", "").body;
    let line = metrics.lines().find(|line| line.starts_with(name));
    line.unwrap_or_else(|| panic!("no {name} in {metrics}")).to_owned()
}

#[test]
fn instances_share_counters_and_fall_back_to_a_share() {
    let mut server = RedisServer::start(&[]).unwrap();
    let directory = TemporaryDirectory::new("shared-store").unwrap();
    let file = policy(&directory, &server.address().to_string());
    let mut one = serve(&file);
    let other = serve(&file);
    assert_eq!(one.line(), format!("tollgate: counters are on Redis at {}", server.address()));
    assert_eq!(one.line(), format!("tollgate: the store answers: {}", server.address()));
    for (tollgate, remaining) in [(&one, 3), (&other, 2), (&one, 1)] {
        let answer = check(tollgate);
        assert_eq!((&answer["source"], &answer["remaining"]), (&"exact".into(), &remaining.into()), "{answer}");
    }
    server.kill().unwrap();
    // The fallback share is a quarter of four; refusals beyond it have the source fallback.
    let alone: Vec<Value> = (0..2).map(|_| check(&one)).collect();
    assert_eq!(alone.iter().map(|answer| &answer["source"]).collect::<Vec<_>>(), ["fallback", "fallback"]);
    assert_eq!(alone.iter().map(|answer| &answer["allowed"]).collect::<Vec<_>>(), [true, false]);
    for _ in 0..20 {
        check(&one);
    }
    let said = one.line();
    let expected = format!("tollgate: error: the store's server {} fails (", server.address());
    assert!(said.starts_with(&expected), "{said}");
    assert_eq!(metric(&one, "tollgate_fallback_active"), "tollgate_fallback_active 1");
    server.restart().unwrap();
    for _ in 0..2_000 {
        if check(&one)["source"] == "exact" {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("the store was not used again within ten seconds");
}

/// The error is logged without waiting for a request.
#[test]
fn unreachable_store_is_logged_at_startup() {
    let mut server = RedisServer::start(&[]).unwrap();
    server.kill().unwrap();
    let directory = TemporaryDirectory::new("unreached").unwrap();
    let file = policy(&directory, &server.address().to_string());
    let mut tollgate = serve(&file);
    assert_eq!(tollgate.line(), format!("tollgate: counters are on Redis at {}", server.address()));
    let said = tollgate.line();
    let expected = format!(
        "tollgate: error: the store cannot be reached (connection): {}; until it answers, each rule applies its \
         on_failure mode",
        server.address()
    );
    assert_eq!(said, expected);
    server.restart().unwrap();
    assert_eq!(tollgate.line(), format!("tollgate: the store answers: {}", server.address()));
}

#[test]
fn missing_password_is_a_note_of_validate_and_a_failure_of_serve() {
    let directory = TemporaryDirectory::new("no-password").unwrap();
    let file = directory.path().join("policy.yaml");
    let rules = "version: 1\nrules:\n  - { name: per-ip, key: client_ip, limit: 4/h }\n";
    let store = "store: { redis: { nodes: [\"127.0.0.1:1\"], password_env: TOLLGATE_NO_SUCH_VARIABLE } }\n";
    std::fs::write(&file, format!("{rules}{store}")).unwrap();
    let file = file.to_str().unwrap();
    // A machine that only checks the policy need not have the password.
    let checked = output(&["validate", "--strict", file]);
    let said = String::from_utf8(checked.stderr).unwrap();
    assert_eq!(checked.status.code(), Some(0), "{said}");
    let note =
        format!("{file}:4:57: note: the environment variable `TOLLGATE_NO_SUCH_VARIABLE` is not set on this machine");
    assert!(said.starts_with(&note) && said.contains("1 rule, 0 warnings\n"), "{said}");
    let failed = output(&["serve", file, "--http", ":0", "--admin", ":0", "--resp", "off", "--grpc", "off"]);
    assert_eq!(failed.status.code(), Some(3));
    let said = String::from_utf8(failed.stderr).unwrap();
    let error = note.replace(": note: ", ": error: ");
    assert!(said.starts_with(&error), "{said}");
}
