//! Reloads of the policy of a running service.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use crate::client::request;
use crate::outputs::policy;
use crate::running::Running;

/// A temporary directory.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    pub(crate) fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("tollgate-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        // The program may read the file at any time, so it must never be half written.
        let partial = path.with_extension("partial");
        std::fs::write(&partial, text).unwrap();
        std::fs::rename(&partial, &path).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn per_ip(limit: u64) -> String {
    format!("version: 1\nrules:\n  - {{ name: per-ip, key: client_ip, limit: {limit}/h }}\n")
}

fn serve(file: &str) -> Running {
    Running::serve_with(&["--grpc", "off", "--resp", "off", file])
}

/// The member `remaining` of one more check.
fn remaining(tollgate: &Running) -> serde_json::Value {
    request(tollgate.http, "POST", "/v1/check", r#"{"ip":"203.0.113.9"}"#).json()["remaining"].clone()
}

fn metrics(tollgate: &Running) -> String {
    request(tollgate.admin, "GET", "/metrics", "").body
}

#[test]
fn sighup_reloads_the_policy_and_keeps_counters() {
    let directory = Directory::new("sighup");
    let file = directory.write("policy.yaml", &per_ip(100));
    let mut tollgate = serve(&file);
    assert_eq!(remaining(&tollgate), 99);
    directory.write("policy.yaml", &per_ip(10));
    tollgate.signal("HUP");
    assert_eq!(
        tollgate.line(),
        format!(
            "tollgate: {file} reloaded: 1 rule changed: `per-ip` (10/h burst 10 token-bucket, was 100/h burst 100 token-bucket)"
        )
    );
    assert_eq!(remaining(&tollgate), 8);
    let metrics = metrics(&tollgate);
    for line in ["tollgate_config_last_reload_successful 1", "tollgate_config_reloads_total{outcome=\"success\"} 1"] {
        assert!(metrics.lines().any(|other| other == line), "{metrics}");
    }
}

/// Every algorithm, and lists of limits; the first limit of each is 10/h.
const LIMITS: [&str; 7] = [
    "limit: 10/h",
    "limit: 10/h, algorithm: fixed-window",
    "limit: [10/h, 100/day]",
    "limit: 10/h, algorithm: sliding-window-log",
    "limit: [10/h, 100/day], algorithm: sliding-window-counter",
    "limit: 10/h, algorithm: sliding-window-counter",
    "limit: 10/h, algorithm: leaky-bucket",
];

#[test]
fn reload_with_another_algorithm_or_a_list_resets_no_counter() {
    let directory = Directory::new("families");
    let rule = |limit: &str| format!("version: 1\nrules:\n  - {{ name: per-ip, key: client_ip, {limit} }}\n");
    let file = directory.write("policy.yaml", &rule(LIMITS[0]));
    let tollgate = serve(&file);
    let check = |tollgate: &Running| request(tollgate.http, "POST", "/v1/check", r#"{"ip":"203.0.113.9"}"#).json();
    for _ in 0..10 {
        assert_eq!(check(&tollgate)["allowed"], true);
    }
    for limit in LIMITS.iter().chain(&LIMITS[..1]) {
        directory.write("policy.yaml", &rule(limit));
        let reloaded = request(tollgate.admin, "POST", "/api/reload", "").json();
        assert_eq!(reloaded["reloaded"], true, "{reloaded}");
        let answer = check(&tollgate);
        assert_eq!((&answer["allowed"], &answer["remaining"]), (&false.into(), &0.into()), "{limit}: {answer}");
    }
}

#[test]
fn reload_logs_changed_rules_and_counters_that_start_from_zero() {
    let directory = Directory::new("anew");
    let file = directory.write("policy.yaml", &per_ip(100));
    let mut tollgate = serve(&file);
    let expected = |new: &str, old: &str| {
        [
            format!("{file} reloaded: 1 rule added: `{new}` (100/h burst 100 token-bucket); 1 rule removed: `{old}`"),
            format!("counters: rule `{new}` is new and starts with no counts"),
            format!("counters: rule `{old}` was removed, and its counts are no longer used"),
        ]
    };
    directory.write("policy.yaml", &per_ip(100).replace("per-ip", "by-address"));
    tollgate.signal("HUP");
    for line in expected("by-address", "per-ip") {
        assert_eq!(tollgate.line(), format!("tollgate: {line}"));
    }
    directory.write("policy.yaml", &per_ip(100));
    let reloaded = request(tollgate.admin, "POST", "/api/reload", "").json();
    assert_eq!(reloaded["message"], expected("per-ip", "by-address").join("\n"));
}

#[test]
fn reload_logs_warnings_of_the_new_policy() {
    let directory = Directory::new("reload-warnings");
    let file = directory.write("policy.yaml", &per_ip(100));
    let mut tollgate = serve(&file);
    directory.write("policy.yaml", "version: 1\nrules: []\n");
    tollgate.signal("HUP");
    assert_eq!(tollgate.line(), format!("tollgate: {file} reloaded: 1 rule removed: `per-ip`"));
    let counters = "tollgate: counters: rule `per-ip` was removed, and its counts are no longer used";
    assert_eq!(tollgate.line(), counters);
    let warning = tollgate.line();
    assert!(warning.starts_with(&format!("tollgate: warning: {file}:2:1: ")), "{warning}");
    assert!(warning.ends_with(" [no-rules]"), "{warning}");
    let reloaded = request(tollgate.admin, "POST", "/api/reload", "").json();
    let message = reloaded["message"].as_str().unwrap();
    assert!(message.starts_with(&format!("{file} reloaded: no changes\nwarning: {file}:2:1: ")), "{message}");
}

#[test]
fn changed_file_is_reloaded() {
    let directory = Directory::new("poll");
    let file = directory.write("policy.yaml", &per_ip(100));
    let mut tollgate = serve(&file);
    directory.write("policy.yaml", &per_ip(10));
    assert_eq!(
        tollgate.line(),
        format!(
            "tollgate: {file} reloaded: 1 rule changed: `per-ip` (10/h burst 10 token-bucket, was 100/h burst 100 token-bucket)"
        )
    );
    assert_eq!(remaining(&tollgate), 9);
}

/// A tier file is part of the policy.
#[test]
fn changed_tier_file_reloads_the_policy() {
    let directory = Directory::new("tier-file");
    let file = directory.write(
        "policy.yaml",
        "version: 1\nidentity:\n  user: { header: X-User, trusted: true }\n  tier: { by: user, file: tiers.txt, default: free }\n\
         rules:\n  - { name: per-user, key: user, tiers: { free: 10/h, pro: 100/h } }\n  \
         - { name: per-ip, key: client_ip, limit: 1000/h }\n",
    );
    directory.write("tiers.txt", "bob pro\n");
    let mut tollgate = serve(&file);
    let remaining = |tollgate: &Running| {
        let answer = request(tollgate.http, "POST", "/v1/check", r#"{"headers":{"x-user":"alice"}}"#).json();
        answer["remaining"].clone()
    };
    assert_eq!(remaining(&tollgate), 9);
    directory.write("tiers.txt", "bob pro\nalice pro\n");
    assert_eq!(tollgate.line(), format!("tollgate: {file} reloaded: changed: tier"));
    assert_eq!(remaining(&tollgate), 98);
    directory.write("tiers.txt", "alice\n");
    let expected = format!("tollgate: error: {file} not reloaded, the previous policy stays active:");
    assert_eq!(tollgate.line(), expected);
    assert_eq!(remaining(&tollgate), 97);
    assert!(metrics(&tollgate).contains("\ntollgate_config_last_reload_successful 0\n"));
}

/// A directory as Kubernetes mounts a ConfigMap: a link to a directory is swapped, no file is written.
#[test]
fn swapped_link_is_reloaded() {
    let directory = Directory::new("links");
    directory.write("one/policy.yaml", &per_ip(100));
    directory.write("two/policy.yaml", &per_ip(10));
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(Path::new(to), directory.0.join(name)).unwrap();
    link("one", "..data");
    link("..data/policy.yaml", "policy.yaml");
    let file = directory.0.join("policy.yaml").to_str().unwrap().to_owned();
    let mut tollgate = serve(&file);
    link("two", "..data_new");
    std::fs::rename(directory.0.join("..data_new"), directory.0.join("..data")).unwrap();
    assert_eq!(
        tollgate.line(),
        format!(
            "tollgate: {file} reloaded: 1 rule changed: `per-ip` (10/h burst 10 token-bucket, was 100/h burst 100 token-bucket)"
        )
    );
    assert_eq!(remaining(&tollgate), 9);
}

#[test]
fn invalid_file_changes_nothing_and_is_logged() {
    let directory = Directory::new("bad");
    let file = directory.write("policy.yaml", &per_ip(100));
    let mut tollgate = serve(&file);
    assert_eq!(remaining(&tollgate), 99);
    directory.write("policy.yaml", &per_ip(10).replace("limit", "limmit"));
    tollgate.signal("HUP");
    assert_eq!(tollgate.line(), format!("tollgate: error: {file} not reloaded, the previous policy stays active:"));
    let why = tollgate.line();
    assert!(why.starts_with(&format!("tollgate:   {file}:3:5: error: ")), "{why}");
    assert_eq!(remaining(&tollgate), 98);
    let metrics = metrics(&tollgate);
    for line in ["tollgate_config_last_reload_successful 0", "tollgate_config_reloads_total{outcome=\"failure\"} 1"] {
        assert!(metrics.lines().any(|other| other == line), "{metrics}");
    }
}

/// A missing file is logged at once, because the next start would fail.
#[test]
fn missing_file_is_logged_once_and_counted_until_it_exists_again() {
    let directory = Directory::new("gone-policy");
    let file = directory.write("policy.yaml", &per_ip(100));
    let mut tollgate = serve(&file);
    assert_eq!(remaining(&tollgate), 99);
    std::fs::remove_file(&file).unwrap();
    let expected = format!("tollgate: error: {file} not reloaded, the previous policy stays active:");
    assert_eq!(tollgate.line(), expected);
    let why = tollgate.line();
    assert!(why.starts_with(&format!("tollgate:   {file}: error: the file cannot be read: ")), "{why}");
    assert!(metrics(&tollgate).contains("\ntollgate_config_last_reload_successful 0\n"));
    assert_eq!(remaining(&tollgate), 98);
    directory.write("policy.yaml", &per_ip(100));
    // This is the next line: the error was logged once.
    assert_eq!(tollgate.line(), format!("tollgate: {file} reloaded: no changes"));
    let metrics = metrics(&tollgate);
    for line in ["tollgate_config_last_reload_successful 1", "tollgate_config_reloads_total{outcome=\"failure\"} 1"] {
        assert!(metrics.lines().any(|other| other == line), "{metrics}");
    }
    assert_eq!(remaining(&tollgate), 97);
}

#[test]
fn reload_with_another_kind_of_store_is_rejected() {
    let directory = Directory::new("store");
    let file = directory.write("policy.yaml", &per_ip(100));
    let mut tollgate = serve(&file);
    directory.write("policy.yaml", &std::fs::read_to_string(policy("redis.yaml")).unwrap());
    tollgate.signal("HUP");
    let expected = format!(
        "tollgate: error: {file} not reloaded, the previous policy stays active: it configures another \
         kind of store, and counters cannot move: restart to use it"
    );
    assert_eq!(tollgate.line(), expected);
    assert_eq!(remaining(&tollgate), 99);
}

#[test]
fn reload_without_a_file_is_an_error() {
    let mut tollgate = Running::serve();
    tollgate.signal("HUP");
    assert_eq!(tollgate.line(), "tollgate: error: not reloaded: there is no policy file, the starter policy is active");
    assert_eq!(request(tollgate.http, "GET", "/readyz", "").status, 200);
}

#[test]
fn systemd_is_notified_of_ready_reloading_and_stopping() {
    let directory = Directory::new("notify");
    let socket = directory.0.join("notify.socket");
    let receiver = UnixDatagram::bind(&socket).unwrap();
    receiver.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let notified = || {
        let mut message = [0; 64];
        let length = receiver.recv(&mut message).unwrap();
        String::from_utf8(message[..length].to_vec()).unwrap()
    };
    let file = directory.write("policy.yaml", &per_ip(100));
    let mut tollgate =
        Running::serve_in(&[("NOTIFY_SOCKET", socket.to_str().unwrap())], &["--grpc", "off", "--resp", "off", &file]);
    assert_eq!(notified(), "READY=1");
    tollgate.signal("HUP");
    assert_eq!([notified(), notified()], ["RELOADING=1", "READY=1"]);
    tollgate.signal("TERM");
    assert_eq!(notified(), "STOPPING=1");
    assert_eq!(tollgate.exit_code(), Some(0));
}
