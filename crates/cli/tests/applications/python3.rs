//! `deploy/aws-api-gateway`: the handler needs only Python.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_testbed::ChildProcess;

use crate::service::Service;

/// A Lambda function, which handles one event at a time.
struct Function(ChildProcess);

impl Function {
    fn start(service: &Service, variables: &[(&str, &str)]) -> Function {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new(std::env::var_os("PYTHON3").unwrap_or_else(|| "python3".into()));
        command.arg(tests.join("tests/applications/script/call_lambda.py"));
        command.arg(tests.join("../../deploy/aws-api-gateway"));
        command.env("TOLLGATE_HOST", service.http.to_string()).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("TOLLGATE_TIMEOUT_SECONDS", "10").envs(variables.iter().copied());
        Function(ChildProcess::start(command.stdin(Stdio::piped()).stdout(Stdio::piped())).unwrap())
    }

    /// The result for a request.
    fn call(&mut self, ip: &str, method: &str, path: &str, headers: &Value) -> Value {
        self.0.write(&format!("{}\n", event(ip, method, path, headers))).unwrap();
        serde_json::from_str(&self.0.line().unwrap().unwrap()).unwrap()
    }

    /// Whether a GET passes.
    fn allows(&mut self, ip: &str, path: &str) -> bool {
        self.call(ip, "GET", path, &json!({}))["isAuthorized"].as_bool().unwrap()
    }
}

/// An event in the payload format 2.0.
fn event(ip: &str, method: &str, path: &str, headers: &Value) -> Value {
    json!({
        "version": "2.0",
        "type": "REQUEST",
        "routeArn": "arn:aws:execute-api:eu-central-1:123456789012:a1b2c3d4e5/$default/GET/things",
        "identitySource": null,
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": "page=2",
        "headers": headers,
        "queryStringParameters": { "page": "2" },
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "a1b2c3d4e5",
            "domainName": "a1b2c3d4e5.execute-api.eu-central-1.amazonaws.com",
            "domainPrefix": "a1b2c3d4e5",
            "http": {
                "method": method,
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": ip,
                "userAgent": "curl/8.5.0",
            },
            "requestId": "JKJaXmPLvHcESHA=",
            "routeKey": "$default",
            "stage": "$default",
            "time": "10/Mar/2026:05:16:23 +0000",
            "timeEpoch": 1_773_119_783_000_u64,
        },
    })
}

#[test]
#[ignore = "needs python3"]
fn authorizer_limits_by_address_path_and_header() {
    let service = Service::start();
    let mut function = Function::start(&service, &[]);
    let first = function.call("203.0.113.9", "GET", "/things", &json!({ "x-forwarded-for": "203.0.113.77" }));
    assert_eq!(first, json!({ "isAuthorized": true, "context": { "rule": "things", "limit": 5, "remaining": 4 } }));
    let allowed = (0..5).filter(|_| function.allows("203.0.113.9", "/things")).count();
    assert_eq!((allowed, function.allows("203.0.113.10", "/things")), (4, true));
    assert!(function.allows("203.0.113.9", "/other"));
    assert!(!function.allows("127.0.0.7", "/"), "the deny list");
    let mut login = || function.call("203.0.113.9", "POST", "/login", &json!({}))["isAuthorized"] == true;
    assert_eq!([login(), login(), login()], [true, true, false]);
    let mut key =
        |value| function.call("203.0.113.9", "GET", "/", &json!({ "x-api-key": value }))["isAuthorized"] == true;
    assert_eq!([key("one"), key("one"), key("two")], [true, false, true]);
    assert_eq!(service.connections(), 2, "one of the function, and one that asks for this number");
}

#[test]
#[ignore = "needs python3"]
fn authorizer_passes_or_fails_as_configured_while_tollgate_is_down() {
    for fail_open in [false, true] {
        let mut service = Service::start();
        let setting = [("TOLLGATE_FAIL_OPEN", if fail_open { "true" } else { "false" })];
        let mut function = Function::start(&service, &[setting[0], ("TOLLGATE_TIMEOUT_SECONDS", "0.25")]);
        // A machine under load may exceed the timeout.
        assert!((0..100).any(|_| function.call("203.0.113.9", "GET", "/", &json!({})).get("context").is_some()));
        service.pause();
        let silent = function.call("203.0.113.9", "GET", "/", &json!({}));
        service.resume();
        service.process.kill().unwrap();
        let gone = function.call("203.0.113.9", "GET", "/", &json!({}));
        let expected =
            if fail_open { json!({ "isAuthorized": true }) } else { json!({ "error": "tollgate does not answer" }) };
        assert_eq!([silent, gone], [expected.clone(), expected]);
        let excessive: Value = (0..300).map(|field| (format!("x-{field}"), Value::from("1"))).collect();
        let service = Service::start();
        let mut function = Function::start(&service, &setting);
        assert_eq!(function.call("203.0.113.9", "GET", "/", &excessive)["isAuthorized"], false);
    }
}

#[test]
#[ignore = "needs python3"]
fn authorizer_reconnects_and_sends_the_access_token() {
    let token = "a-token-of-an-authorizer";
    let service = Service::start_with(&["--idle-timeout", "100ms"], &[("TOLLGATE_ACCESS_TOKEN", token)]);
    let mut function = Function::start(&service, &[("TOLLGATE_ACCESS_TOKEN", token)]);
    assert!(function.allows("203.0.113.9", "/"));
    // The process uses the real clock, so the test must wait until the service closes the connection.
    std::thread::sleep(Duration::from_millis(500));
    assert!(function.allows("203.0.113.9", "/"));
    let mut stranger = Function::start(&service, &[]);
    assert_eq!(stranger.call("203.0.113.9", "GET", "/", &json!({})), json!({ "error": "tollgate does not answer" }));
}
