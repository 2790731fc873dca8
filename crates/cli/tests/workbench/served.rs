//! Calibration from a running service.

use crate::client::request;
use crate::program::Folder;
use crate::running::Running;

const POLICY: &str = "version: 1
rules:
  - { name: wide, key: client_ip, limit: 6000/h burst 1000, shadow: true }
  - { name: tight, key: client_ip, limit: 2/h, shadow: true, algorithm: fixed-window }
  - { name: rare, when: { path: /rare }, key: client_ip, limit: 5/min }
  - { name: two, key: client_ip, limit: [9000/h, 100000/day] }
";

/// Sends 2,000 checks of 10 clients.
fn send_checks(service: &Running) {
    for _ in 0..2 {
        let checks: Vec<String> = (0..1_000).map(|at| format!("{{\"ip\":\"203.0.113.{}\"}}", at % 10)).collect();
        let response = request(service.http, "POST", "/v1/check/batch", &format!("[{}]", checks.join(",")));
        assert_eq!(response.status, 200, "{}", response.body);
    }
}

#[test]
fn headroom_of_a_running_service_supports_lower_limits_and_rejects_tight_ones() {
    let folder = Folder::empty();
    folder.write("policy.yaml", POLICY);
    let policy = folder.path("policy.yaml");
    let service = Running::serve_with(&["--grpc", "off", "--resp", "off", policy.to_str().unwrap()]);
    send_checks(&service);
    let admin = format!("http://{}", service.admin);
    let answer = folder.run(&["calibrate", "--admin", &admin, "--format", "json"]).json();
    let proposal = |at: usize| {
        let proposal = &answer["proposals"][at];
        (proposal["rule"].as_str().unwrap(), proposal["proposed"].as_str(), proposal["reason"].as_str().unwrap())
    };
    // 200 of 1,000 tokens are used, so at least three quarters remain: a quarter is needed, and a fifth more.
    let enough = "enough decisions used at most 250 of 1,000";
    assert_eq!(proposal(0), ("wide", Some("6000/h burst 300"), enough));
    let (rule, proposed, reason) = proposal(1);
    assert_eq!((rule, proposed), ("tight", None));
    assert!(reason.ends_with("of the decisions used up the limit: try twice the limit as a shadow rule"), "{reason}");
    assert_eq!(proposal(2), ("rare", None, "0 decisions are too few: expected at least 1,000"));
    assert_eq!(proposal(3).1, None);
    let tight = &answer["proposals"][1];
    assert_eq!((&tight["evidence"]["decisions"], &tight["shadow"]), (&2_000.into(), &true.into()));
    assert_eq!(tight["offenders"].as_array().unwrap().len(), 10);

    let text = folder.run(&["calibrate", "--admin", &admin]);
    assert!(
        text.success().contains("wide (shadow): 6000/h burst 1000\n  proposed  6000/h burst 300: "),
        "{}",
        text.stdout
    );
}

#[test]
fn service_that_is_not_there_or_an_address_of_another_form_is_explained() {
    let folder = Folder::empty();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let run = folder.run(&["calibrate", "--admin", &format!("http://{free}")]);
    run.assert_fails(
        3,
        &["error: cannot call http://", "hint: start one with `tollgate serve`; --admin is its admin listener"],
    );
    folder.run(&["calibrate", "--admin", "127.0.0.1"]).assert_fails(2, &["expected http://HOST:PORT"]);
    let arguments = ["calibrate", "--admin", "http://127.0.0.1:1", "--write", "p.yaml"];
    folder.run(&arguments).assert_fails(2, &["cannot be used with"]);
    folder.run(&["calibrate"]).assert_fails(2, &["--log <LOG>...|--admin <URL>"]);
}
