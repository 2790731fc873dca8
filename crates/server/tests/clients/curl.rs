use std::process::Command;

use serde_json::Value;

use crate::limited_api::run_program_of_the_page;
use crate::program::{command, stdout_of};
use crate::test_service::TestService;

const POLICY: &str = "version: 1
identity:
  client_ip: { trusted_proxies: [127.0.0.1] }
rules:
  - { name: per-ip, key: client_ip, limit: 2/h }
";

/// Creates a curl command that prints only errors, and uses no proxy.
fn curl() -> Command {
    let mut curl = command("curl");
    curl.args(["--silent", "--show-error", "--noproxy", "*", "--max-time", "20"]);
    curl
}

fn json(curl: &mut Command) -> Value {
    serde_json::from_str(&stdout_of(curl)).unwrap()
}

#[test]
#[ignore = "needs curl"]
fn curl_sends_single_and_batch_checks() {
    let service = TestService::with_policy(POLICY);
    let url = |path: &str| format!("http://{}{path}", service.http);
    let one = r#"{"ip":"203.0.113.9"}"#;
    // The call of the README: curl sends the body with the content type of a form.
    let response = json(curl().arg(url("/v1/check")).args(["-d", one]));
    assert_eq!((&response["allowed"], &response["remaining"]), (&true.into(), &1.into()));
    let batch = format!("[{one},{one}]");
    let responses = json(curl().arg(url("/v1/check/batch")).args(["--json", &batch]));
    assert_eq!((&responses[0]["allowed"], &responses[1]["allowed"]), (&true.into(), &false.into()));
    assert_eq!(responses[1]["retry_after_ms"], 1_800_000);
    // Two responses on one connection.
    let twice = curl().args([url("/healthz"), url("/readyz")]).args(["--write-out", "%{num_connects} "]).output();
    assert_eq!(String::from_utf8(twice.unwrap().stdout).unwrap(), "ok\n1 ready\n0 ");
}

#[test]
#[ignore = "needs curl"]
fn curl_gets_forward_auth_status_and_headers() {
    let service = TestService::with_policy(POLICY);
    let forward_auth = |options: &[&str]| {
        let url = format!("http://{}/v1/forward-auth", service.http);
        let headers =
            ["-H", "X-Forwarded-For: 203.0.113.9", "-H", "X-Forwarded-Uri: /", "-H", "X-Forwarded-Method: GET"];
        stdout_of(curl().arg("--include").args(headers).args(options).arg(url))
    };
    assert!(forward_auth(&["--request", "PROPFIND"]).starts_with("HTTP/1.1 200 OK\r\n"));
    assert!(forward_auth(&["--head"]).contains("\r\nratelimit: \"per-ip\";r=0;t=1800\r\n"));
    let refused = forward_auth(&[]);
    assert!(refused.starts_with("HTTP/1.1 429 Too Many Requests\r\n"), "{refused}");
    assert!(refused.contains("\r\nretry-after: 1800\r\n"), "{refused}");
    assert!(refused.contains("\r\ncontent-type: application/problem+json\r\n"), "{refused}");
    assert!(refused.contains(r#""violated-policies":["per-ip"]"#), "{refused}");
}

#[cfg(feature = "tls")]
#[test]
#[ignore = "needs curl"]
fn curl_negotiates_the_http_version_of_the_listener_over_tls() {
    let authority = crate::authority::Authority::new("curl");
    let tls = tollgate_server::Tls::load(authority.files(&authority.sign("localhost"), None)).unwrap();
    let trusted = authority.write("authority.pem", &authority.issuer.pem());
    let service = TestService::with_server(POLICY, |server| server.with_tls(tls));
    let version = |port: u16, options: &[&str]| {
        let url = format!("https://localhost:{port}/healthz");
        let write_out = ["--write-out", "%{http_version}", "--output", "/dev/null"];
        stdout_of(curl().arg("--cacert").arg(&trusted).args(write_out).args(options).arg(url))
    };
    assert_eq!(version(service.http.port(), &["--http2"]), "1.1");
    assert_eq!(version(service.grpc.port(), &["--http2"]), "2");
}

#[test]
#[ignore = "needs curl"]
fn curl_command_of_the_page_is_not_refused() {
    run_program_of_the_page("sh", "sh", "sh");
}
