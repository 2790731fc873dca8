use std::process::Command;

use serde_json::Value;

use crate::program::{command, printed};
use crate::running::Running;

const POLICY: &str = "version: 1
identity:
  client_ip: { trusted_proxies: [127.0.0.1] }
rules:
  - { name: per-ip, key: client_ip, limit: 2/h }
";

/// Silent but for mistakes, and not by way of a proxy that this machine may have.
fn curl() -> Command {
    let mut curl = command("curl");
    curl.args(["--silent", "--show-error", "--noproxy", "*", "--max-time", "20"]);
    curl
}

fn json(curl: &mut Command) -> Value {
    serde_json::from_str(&printed(curl)).unwrap()
}

#[test]
#[ignore = "needs curl"]
fn checks_one_by_one_and_together() {
    let service = Running::under(POLICY);
    let url = |path: &str| format!("http://{}{path}", service.http);
    let one = r#"{"ip":"203.0.113.9"}"#;
    // This is how the README asks: the type of the body is that of a form.
    let answer = json(curl().arg(url("/v1/check")).args(["-d", one]));
    assert_eq!((&answer["allowed"], &answer["remaining"]), (&true.into(), &1.into()));
    let batch = format!("[{one},{one}]");
    let answers = json(curl().arg(url("/v1/check/batch")).args(["--json", &batch]));
    assert_eq!((&answers[0]["allowed"], &answers[1]["allowed"]), (&true.into(), &false.into()));
    assert_eq!(answers[1]["retry_after_ms"], 1_800_000);
    // Two answers on one connection.
    let twice = curl().args([url("/healthz"), url("/readyz")]).args(["--write-out", "%{num_connects} "]).output();
    assert_eq!(String::from_utf8(twice.unwrap().stdout).unwrap(), "ok\n1 ready\n0 ");
}

#[test]
#[ignore = "needs curl"]
fn forward_auth_as_a_gateway_asks() {
    let service = Running::under(POLICY);
    let ask = |options: &[&str]| {
        let url = format!("http://{}/v1/forward-auth", service.http);
        let described =
            ["-H", "X-Forwarded-For: 203.0.113.9", "-H", "X-Forwarded-Uri: /", "-H", "X-Forwarded-Method: GET"];
        printed(curl().arg("--include").args(described).args(options).arg(url))
    };
    assert!(ask(&["--request", "PROPFIND"]).starts_with("HTTP/1.1 200 OK\r\n"));
    assert!(ask(&["--head"]).contains("\r\nratelimit: \"per-ip\";r=0;t=1800\r\n"));
    let refused = ask(&[]);
    assert!(refused.starts_with("HTTP/1.1 429 Too Many Requests\r\n"), "{refused}");
    assert!(refused.contains("\r\nretry-after: 1800\r\n"), "{refused}");
    assert!(refused.contains("\r\ncontent-type: application/problem+json\r\n"), "{refused}");
    assert!(refused.contains(r#""violated-policies":["per-ip"]"#), "{refused}");
}

#[cfg(feature = "tls")]
#[test]
#[ignore = "needs curl"]
fn over_tls_it_is_told_what_is_spoken() {
    let authority = crate::authority::Authority::new("curl");
    let tls = tollgate_server::Tls::load(authority.files(&authority.sign("localhost"), None)).unwrap();
    let trusted = authority.write("authority.pem", &authority.issuer.pem());
    let service = Running::with(POLICY, |server| server.with_tls(tls));
    let version = |port: u16, options: &[&str]| {
        let url = format!("https://localhost:{port}/healthz");
        let write_out = ["--write-out", "%{http_version}", "--output", "/dev/null"];
        printed(curl().arg("--cacert").arg(&trusted).args(write_out).args(options).arg(url))
    };
    assert_eq!(version(service.http.port(), &["--http2"]), "1.1");
    assert_eq!(version(service.grpc.port(), &["--http2"]), "2");
}
