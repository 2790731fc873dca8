//! The log of a running service.

use std::path::PathBuf;

use serde_json::Value;

use crate::client::request;
use crate::running::{Running, output};

const POLICY: &str = "version: 1
rules:
  - { name: per-ip, key: client_ip, limit: 1/h }
";

/// A temporary file.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> File {
        let file = File(std::env::temp_dir().join(format!("tollgate-log-{}-{name}", std::process::id())));
        file.write(text);
        file
    }

    fn write(&self, text: &str) {
        std::fs::write(&self.0, text).unwrap();
    }

    fn name(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn check(tollgate: &Running) {
    request(tollgate.http, "POST", "/v1/check", r#"{"ip":"203.0.113.9"}"#);
}

/// The client of the next violation.
fn client(tollgate: &mut Running) -> String {
    check(tollgate);
    let line =
        std::iter::repeat_with(|| tollgate.any_line()).find(|line| line.starts_with("tollgate: violation ")).unwrap();
    line.split_once(" client=").unwrap().1.to_owned()
}

#[test]
fn json_log_contains_only_json() {
    let policy = File::new("json.yaml", POLICY);
    let mut tollgate = Running::serve_with(&["--grpc", "off", "--resp", "off", "--log-format", "json", policy.name()]);
    (0..3).for_each(|_| check(&tollgate));
    policy.write("version: 1\nrules: nonsense\n");
    tollgate.signal("HUP");
    let mut lines: Vec<Value> = Vec::new();
    // The report of errors is one line, too.
    for level in ["error", "none"] {
        loop {
            let line = tollgate.any_line();
            if line.is_empty() {
                break;
            }
            lines.push(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")));
            if lines.last().unwrap()["level"] == level {
                break;
            }
        }
        if level == "error" {
            tollgate.signal("TERM");
        }
    }
    assert_eq!(tollgate.exit_code(), Some(0));
    assert_eq!(lines.last().unwrap()["message"], "stopped");
    let wrong: Vec<&Value> = lines.iter().filter(|line| line["level"] == "error").collect();
    let message = wrong[0]["message"].as_str().unwrap();
    assert!(wrong.len() == 1 && message.contains("not reloaded, the previous policy stays active:\n"), "{wrong:?}");
    assert!(message.contains(":2:8: error: "), "{message}");
    let of = |event: &str| lines.iter().filter(|line| line["event"] == event).collect::<Vec<_>>();
    assert_eq!(of("rule").len(), 1);
    assert_eq!((&of("rule")[0]["rule"], &of("rule")[0]["algorithms"][0]), (&"per-ip".into(), &"token-bucket".into()));
    assert_eq!(of("violation").len(), 2);
    assert!(of("violation").iter().all(|line| line["client"].as_str().unwrap().len() == 23));
    assert!(!lines.iter().any(|line| line.to_string().contains("203.0.113.9")));
}

#[test]
fn failure_at_startup_is_json() {
    let tollgate = Running::serve();
    let taken = tollgate.http.to_string();
    let failed = output(&[
        "serve",
        "--http",
        &taken,
        "--admin",
        "off",
        "--grpc",
        "off",
        "--resp",
        "off",
        "--log-format",
        "json",
    ]);
    assert_eq!(failed.status.code(), Some(3));
    let said = String::from_utf8(failed.stderr).unwrap();
    let line: Value = serde_json::from_str(said.trim_end()).unwrap();
    assert_eq!(line["level"], "error");
    assert!(line["message"].as_str().unwrap().starts_with(&format!("error: cannot listen on {taken}")), "{said}");
}

#[test]
fn changed_log_key_is_reloaded_and_has_another_id() {
    let (policy, key) = (File::new("key.yaml", POLICY), File::new("key", "sixteen bytes at least\n"));
    let flags = ["--grpc", "off", "--resp", "off", "--log-key-file", key.name(), policy.name()];
    let mut tollgate = Running::serve_with(&flags);
    check(&tollgate);
    let before = client(&mut tollgate);
    // The same as: printf 203.0.113.9 | openssl dgst -sha256 -hmac 'sixteen bytes at least'
    assert!(before.ends_with(":587d73ec16b5f8f3"), "{before}");
    assert_eq!(client(&mut tollgate), before);
    key.write("another key of sixteen bytes\n");
    let said = tollgate.line();
    let id = said.strip_prefix("tollgate: log key reloaded: clients are hashed with key ").unwrap();
    let id = id.strip_suffix(" from now on").unwrap();
    let after = client(&mut tollgate);
    assert!(after.starts_with(&format!("{id}:")) && !before.starts_with(id), "{before} {after}");
    key.write("short");
    let said = tollgate.line();
    assert!(said.starts_with("tollgate: error: log key not reloaded, the previous one stays in use: "), "{said}");
    assert_eq!(client(&mut tollgate), after);
}

#[test]
fn unusable_log_key_fails_at_startup() {
    let key = File::new("short", "short");
    let failed = output(&["serve", "--log-key-file", key.name()]);
    assert_eq!(failed.status.code(), Some(3));
    let said = String::from_utf8(failed.stderr).unwrap();
    assert_eq!(said, format!("error: cannot use {} as the log key: it must have at least 16 bytes\n", key.name()));
}
