//! Commands that call a running service: `check` and `keys`.

use std::process::Output;

use tollgate_testbed::Certificates;

use crate::reload::Directory;
use crate::running::{Running, tollgate};

const POLICY: &str = "version: 1
identity: { user: { header: X-User-ID, trusted: true } }
rules:
  - { name: per-ip, key: client_ip, limit: 2/h, message: slow down }
  - { name: per-user, key: [user, path], limit: 5/h, shadow: true }
  - { name: total, limit: 1000/h }
";

struct Service {
    running: Running,
    directory: Directory,
    scheme: &'static str,
    environment: Vec<(&'static str, String)>,
}

impl Service {
    fn start(name: &str, more: &[&str]) -> Service {
        let directory = Directory::new(name);
        let policy = directory.write("policy.yaml", POLICY);
        let running = Running::serve_with(&[&["--grpc", "off", "--resp", "off", &policy], more].concat());
        Service { running, directory, scheme: "http", environment: Vec::new() }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let flag = |listener: &std::net::SocketAddr| format!("{}://{listener}", self.scheme);
        let (url, admin) = (flag(&self.running.http), flag(&self.running.admin));
        let service = if arguments[0] == "keys" { ["--admin", &admin] } else { ["--url", &url] };
        let mut command = tollgate(arguments);
        command.args(service).env_remove("TOLLGATE_ADMIN_TOKEN").env_remove("TOLLGATE_ACCESS_TOKEN");
        command.envs(self.environment.iter().map(|(name, value)| (name, value))).output().unwrap()
    }

    /// Returns stdout of a run with this exit code.
    #[track_caller]
    fn stdout(&self, arguments: &[&str], exit_code: i32) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(exit_code), "{output:?}");
        assert!(output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns stderr of a run with this exit code.
    #[track_caller]
    fn stderr(&self, arguments: &[&str], exit_code: i32) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(exit_code), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

#[test]
fn check_prints_the_verdict_and_exits_with_it() {
    let service = Service::start("remote-check", &[]);
    let allowed = service.stdout(&["check", "--ip", "203.0.113.9", "--user", "a", "--path", "/x"], 0);
    let blocks: Vec<&str> = allowed.split("\n\n").map(|block| block.lines().next().unwrap()).collect();
    assert_eq!(blocks, ["allowed", "per-ip allows", "per-user would allow, as a shadow rule", "total allows"]);
    assert!(allowed.contains("  remaining   1 of 2\n"), "{allowed}");
    assert_eq!(service.stdout(&["check", "--ip", "203.0.113.9"], 0).lines().next(), Some("allowed"));
    let peek = service.stdout(&["check", "--ip", "203.0.113.8", "--cost", "0"], 0);
    assert!(peek.contains("  remaining   2 of 2\n") || peek.contains("  remaining  2 of 2\n"), "{peek}");
    let refused = service.stdout(&["check", "--ip", "203.0.113.9"], 1);
    let (first, rest) = refused.split_once('\n').unwrap();
    assert_eq!(first, "refused by per-ip");
    assert!(rest.contains("  retry    in ") && rest.contains("  message  slow down\n"), "{refused}");
    let json = service.stdout(&["check", "--ip", "203.0.113.9", "--format", "json"], 1);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((json["rule"].as_str(), json["allowed"].as_bool()), (Some("per-ip"), Some(false)), "{json}");
}

#[test]
fn keys_are_inspected_overridden_and_reset() {
    let service = Service::start("remote-keys", &[]);
    service.stdout(&["check", "--ip", "203.0.113.9", "--user", "a/b c", "--path", "/x"], 0);
    let inspected = service.stdout(&["keys", "inspect", "per-ip", "203.0.113.9"], 0);
    assert!(inspected.starts_with("per-ip\n  key             203.0.113.9\n  client in logs  "), "{inspected}");
    assert!(inspected.contains("\n2/h burst 2, token-bucket\n  used        1\n  remaining   1 of 2\n"), "{inspected}");
    let parts = service.stdout(&["keys", "inspect", "per-user", "a/b c|/x"], 0);
    assert!(parts.contains("  used        1\n"), "{parts}");
    let total = service.stdout(&["keys", "inspect", "total"], 0);
    assert!(total.contains("  remaining   999 of 1,000\n"), "{total}");

    let set = service.stdout(&["keys", "override", "per-ip", "203.0.113.9", "--limit", "9/h", "--for", "10min"], 0);
    assert!(set.starts_with("per-ip 203.0.113.9 has the limit 9/h until 2"), "{set}");
    let list = service.stdout(&["keys", "overrides"], 0);
    assert!(list.lines().nth(1).unwrap().starts_with("  per-ip  203.0.113.9  9/h"), "{list}");
    let ended = service.stdout(&["keys", "end-override", "per-ip", "203.0.113.9"], 0);
    assert_eq!(ended, "per-ip 203.0.113.9 has the limit of the policy again\n");
    assert_eq!(service.stdout(&["keys", "overrides"], 0), "no override is in effect\n");
    assert_eq!(service.stdout(&["keys", "reset", "total"], 0), "total is reset\n");
    assert!(service.stdout(&["keys", "inspect", "total"], 0).contains("  remaining  1,000 of 1,000\n"));

    // What the service refuses is a negative result, in its words.
    assert!(service.stderr(&["keys", "inspect", "nope", "x"], 1).contains("nope"));
    assert!(service.stderr(&["keys", "end-override", "total"], 1).starts_with("error: "));
    let wrong = ["keys", "override", "per-ip", "203.0.113.9", "--limit", "9", "--for", "10min"];
    assert!(service.stderr(&wrong, 1).starts_with("error: "));
}

#[test]
fn tokens_are_taken_from_the_environment() {
    const TOKEN: &str = "a-token-of-an-operator";
    let directory = Directory::new("remote-token-file");
    let file = directory.write("token", TOKEN);
    let mut service = Service::start("remote-token", &["--admin-token-file", &file, "--access-token-file", &file]);
    for (arguments, variable) in
        [(&["keys", "inspect", "total"][..], "TOLLGATE_ADMIN_TOKEN"), (&["check"], "TOLLGATE_ACCESS_TOKEN")]
    {
        let refused = service.stderr(arguments, 3);
        let hint = format!("hint: set {variable} to the token of the service\n");
        assert!(refused.contains("a valid token is required\n") && refused.ends_with(&hint), "{refused}");
        service.environment = vec![(variable, TOKEN.to_owned())];
        service.stdout(arguments, 0);
        service.environment = vec![(variable, "another token".to_owned())];
        assert!(!service.stderr(arguments, 2).contains("another token"));
        service.environment.clear();
    }
}

#[test]
fn certificate_of_the_service_is_verified() {
    let certificates = Certificates::new().unwrap();
    let (certificate, key) = (certificates.certificate_file(), certificates.key_file());
    let tls = ["--tls-cert", certificate.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let mut service = Service::start("remote-tls", &tls);
    service.scheme = "https";
    let ca = certificates.authority_file();
    let ca = ca.to_str().unwrap();
    service.stdout(&["check", "--ca", ca], 0);
    service.stdout(&["keys", "inspect", "total", "--ca", ca], 0);
    let other = Certificates::new().unwrap();
    let unknown = service.stderr(&["check", "--ca", other.authority_file().to_str().unwrap()], 3);
    assert!(unknown.contains("invalid peer certificate"), "{unknown}");
    let missing = service.directory.write("empty.pem", "");
    let unusable = service.stderr(&["check", "--ca", &missing], 3);
    assert!(unusable.contains("there is no certificate of an authority"), "{unusable}");
}

#[test]
fn unreachable_service_is_an_error_with_a_hint() {
    // The listener closes when it is dropped, so the port refuses connections.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    for (arguments, hint) in [
        (["check", "--url", &url], "hint: start one with `tollgate serve`; --url is its HTTP listener\n"),
        (["keys", "overrides", "--admin"], "hint: start one with `tollgate serve`; --admin is its admin listener\n"),
    ] {
        let mut command = tollgate(&arguments);
        if arguments[0] == "keys" {
            command.arg(&url);
        }
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.starts_with(&format!("error: cannot call {url}/")) && said.ends_with(hint), "{said}");
    }
}
