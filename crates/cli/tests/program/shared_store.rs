//! A policy whose counters are on Redis.

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
fn services_count_together_and_go_on_alone() {
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
    // A quarter of four, and beyond it nobody is told that it is their fault.
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
    panic!("the store did not come back within ten seconds");
}

/// Before any request has to find it out.
#[test]
fn a_store_that_cannot_be_reached_is_told_at_the_start() {
    let mut server = RedisServer::start(&[]).unwrap();
    server.kill().unwrap();
    let directory = TemporaryDirectory::new("unreached").unwrap();
    let file = policy(&directory, &server.address().to_string());
    let mut tollgate = serve(&file);
    assert_eq!(tollgate.line(), format!("tollgate: counters are on Redis at {}", server.address()));
    let said = tollgate.line();
    let expected = format!(
        "tollgate: error: the store cannot be reached (connection): {}; until it answers, each rule does what its \
         on_failure says",
        server.address()
    );
    assert_eq!(said, expected);
    server.restart().unwrap();
    assert_eq!(tollgate.line(), format!("tollgate: the store answers: {}", server.address()));
}

#[test]
fn a_password_that_is_missing_is_told_before_anything_is_served() {
    let directory = TemporaryDirectory::new("no-password").unwrap();
    let file = directory.path().join("policy.yaml");
    let rules = "version: 1\nrules:\n  - { name: per-ip, key: client_ip, limit: 4/h }\n";
    let store = "store: { redis: { nodes: [\"127.0.0.1:1\"], password_env: TOLLGATE_NO_SUCH_VARIABLE } }\n";
    std::fs::write(&file, format!("{rules}{store}")).unwrap();
    let file = file.to_str().unwrap();
    // Where a policy is only checked, that is to be expected.
    let checked = output(&["validate", file]);
    let said = String::from_utf8(checked.stderr).unwrap();
    assert_eq!(checked.status.code(), Some(0), "{said}");
    let warned = format!("{file}:4:57: warning: the environment variable `TOLLGATE_NO_SUCH_VARIABLE` is not set here");
    assert!(said.starts_with(&warned) && said.contains("1 rule, 1 warning\n"), "{said}");
    let failed = output(&["serve", file, "--http", ":0", "--admin", ":0", "--resp", "off", "--grpc", "off"]);
    assert_eq!(failed.status.code(), Some(3));
    let said = String::from_utf8(failed.stderr).unwrap();
    let expected = format!(
        "error: cannot serve {file}: no password for the store in environment variable TOLLGATE_NO_SUCH_VARIABLE"
    );
    assert!(said.starts_with(&expected), "{said}");
}
