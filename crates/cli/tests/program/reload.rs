//! A policy file that changes while it is served.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use crate::client::request;
use crate::outputs::policy;
use crate::running::Running;

/// A directory of a test's own.
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
        std::fs::write(&path, text).unwrap();
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

/// What remains after one more request.
fn remaining(tollgate: &Running) -> serde_json::Value {
    request(tollgate.http, "POST", "/v1/check", r#"{"ip":"203.0.113.9"}"#).json()["remaining"].clone()
}

fn metrics(tollgate: &Running) -> String {
    request(tollgate.admin, "GET", "/metrics", "").body
}

#[test]
fn sighup_puts_the_new_policy_in_force_and_keeps_counters() {
    let directory = Directory::new("sighup");
    let file = directory.write("policy.yaml", &per_ip(100));
    let mut tollgate = serve(&file);
    assert_eq!(remaining(&tollgate), 99);
    directory.write("policy.yaml", &per_ip(10));
    tollgate.signal("HUP");
    assert_eq!(tollgate.line(), format!("tollgate: {file} was read again and is in force"));
    assert_eq!(remaining(&tollgate), 8);
    let metrics = metrics(&tollgate);
    for line in ["tollgate_config_last_reload_successful 1", "tollgate_config_reloads_total{outcome=\"success\"} 1"] {
        assert!(metrics.lines().any(|other| other == line), "{metrics}");
    }
}

/// Every way in which one rule can be limited; the first limit of each is 10/h.
const WAYS: [&str; 7] = [
    "limit: 10/h",
    "limit: 10/h, algorithm: fixed-window",
    "limit: [10/h, 100/day]",
    "limit: 10/h, algorithm: sliding-window-log",
    "limit: [10/h, 100/day], algorithm: sliding-window-counter",
    "limit: 10/h, algorithm: sliding-window-counter",
    "limit: 10/h, algorithm: leaky-bucket",
];

#[test]
fn reload_with_another_algorithm_or_a_list_refills_nothing() {
    let directory = Directory::new("families");
    let rule = |way: &str| format!("version: 1\nrules:\n  - {{ name: per-ip, key: client_ip, {way} }}\n");
    let file = directory.write("policy.yaml", &rule(WAYS[0]));
    let tollgate = serve(&file);
    let check = |tollgate: &Running| request(tollgate.http, "POST", "/v1/check", r#"{"ip":"203.0.113.9"}"#).json();
    for _ in 0..10 {
        assert_eq!(check(&tollgate)["allowed"], true);
    }
    for way in WAYS.iter().chain(&WAYS[..1]) {
        directory.write("policy.yaml", &rule(way));
        let reloaded = request(tollgate.admin, "POST", "/api/reload", "").json();
        assert_eq!(reloaded["reloaded"], true, "{reloaded}");
        let answer = check(&tollgate);
        assert_eq!((&answer["allowed"], &answer["remaining"]), (&false.into(), &0.into()), "{way}: {answer}");
    }
}

#[test]
fn reload_says_which_counts_start_anew() {
    let directory = Directory::new("anew");
    let file = directory.write("policy.yaml", &per_ip(100));
    let mut tollgate = serve(&file);
    let expected = |new: &str, old: &str| {
        [
            format!("{file} was read again and is in force"),
            format!("counters: rule `{new}` is new and starts with no counts"),
            format!("counters: rule `{old}` is gone, and its counts are not used any more"),
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
fn a_change_of_the_file_is_seen() {
    let directory = Directory::new("poll");
    let file = directory.write("policy.yaml", &per_ip(100));
    let mut tollgate = serve(&file);
    directory.write("policy.yaml", &per_ip(10));
    assert_eq!(tollgate.line(), format!("tollgate: {file} was read again and is in force"));
    assert_eq!(remaining(&tollgate), 9);
}

/// The tiers of clients are part of the policy, wherever they are written down.
#[test]
fn a_changed_tier_file_is_read_like_a_changed_policy() {
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
    assert_eq!(tollgate.line(), format!("tollgate: {file} was read again and is in force"));
    assert_eq!(remaining(&tollgate), 98);
    directory.write("tiers.txt", "alice\n");
    let expected = format!("tollgate: error: {file} was not put in force, and the old policy still holds:");
    assert_eq!(tollgate.line(), expected);
    assert_eq!(remaining(&tollgate), 97);
    assert!(metrics(&tollgate).contains("\ntollgate_config_last_reload_successful 0\n"));
}

/// A directory as Kubernetes mounts a ConfigMap: a link to a directory is swapped, no file is written.
#[test]
fn a_swapped_link_is_seen() {
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
    assert_eq!(tollgate.line(), format!("tollgate: {file} was read again and is in force"));
    assert_eq!(remaining(&tollgate), 9);
}

#[test]
fn a_bad_file_changes_nothing_and_says_why() {
    let directory = Directory::new("bad");
    let file = directory.write("policy.yaml", &per_ip(100));
    let mut tollgate = serve(&file);
    assert_eq!(remaining(&tollgate), 99);
    directory.write("policy.yaml", &per_ip(10).replace("limit", "limmit"));
    tollgate.signal("HUP");
    assert_eq!(
        tollgate.line(),
        format!("tollgate: error: {file} was not put in force, and the old policy still holds:")
    );
    let why = tollgate.line();
    assert!(why.starts_with(&format!("tollgate:   {file}:3:5: error: ")), "{why}");
    assert_eq!(remaining(&tollgate), 98);
    let metrics = metrics(&tollgate);
    for line in ["tollgate_config_last_reload_successful 0", "tollgate_config_reloads_total{outcome=\"failure\"} 1"] {
        assert!(metrics.lines().any(|other| other == line), "{metrics}");
    }
}

/// A file that is gone is no policy, and whoever watches must hear of it before the next start does.
#[test]
fn a_file_that_is_gone_is_told_once_and_counted_until_it_is_back() {
    let directory = Directory::new("gone-policy");
    let file = directory.write("policy.yaml", &per_ip(100));
    let mut tollgate = serve(&file);
    assert_eq!(remaining(&tollgate), 99);
    std::fs::remove_file(&file).unwrap();
    let expected = format!("tollgate: error: {file} was not put in force, and the old policy still holds:");
    assert_eq!(tollgate.line(), expected);
    let why = tollgate.line();
    assert!(why.starts_with(&format!("tollgate:   {file}: error: the file cannot be read: ")), "{why}");
    assert!(metrics(&tollgate).contains("\ntollgate_config_last_reload_successful 0\n"));
    assert_eq!(remaining(&tollgate), 98);
    directory.write("policy.yaml", &per_ip(100));
    // The very next line: it was told once.
    assert_eq!(tollgate.line(), format!("tollgate: {file} was read again and is in force"));
    let metrics = metrics(&tollgate);
    for line in ["tollgate_config_last_reload_successful 1", "tollgate_config_reloads_total{outcome=\"failure\"} 1"] {
        assert!(metrics.lines().any(|other| other == line), "{metrics}");
    }
    assert_eq!(remaining(&tollgate), 97);
}

#[test]
fn another_kind_of_store_is_refused() {
    let directory = Directory::new("store");
    let file = directory.write("policy.yaml", &per_ip(100));
    let mut tollgate = serve(&file);
    directory.write("policy.yaml", &std::fs::read_to_string(policy("redis.yaml")).unwrap());
    tollgate.signal("HUP");
    let expected = format!(
        "tollgate: error: {file} was not put in force, and the old policy still holds: it keeps its counters in another \
         kind of store, and they cannot move: start again to use it"
    );
    assert_eq!(tollgate.line(), expected);
    assert_eq!(remaining(&tollgate), 99);
}

#[test]
fn without_a_file_there_is_nothing_to_read_again() {
    let mut tollgate = Running::serve();
    tollgate.signal("HUP");
    assert_eq!(tollgate.line(), "tollgate: error: there is no policy file to be read again: the starter policy holds");
    assert_eq!(request(tollgate.http, "GET", "/readyz", "").status, 200);
}

#[test]
fn systemd_is_told_how_far_it_is() {
    let directory = Directory::new("notify");
    let socket = directory.0.join("notify.socket");
    let listening = UnixDatagram::bind(&socket).unwrap();
    listening.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let told = || {
        let mut message = [0; 64];
        let length = listening.recv(&mut message).unwrap();
        String::from_utf8(message[..length].to_vec()).unwrap()
    };
    let file = directory.write("policy.yaml", &per_ip(100));
    let mut tollgate =
        Running::serve_in(&[("NOTIFY_SOCKET", socket.to_str().unwrap())], &["--grpc", "off", "--resp", "off", &file]);
    assert_eq!(told(), "READY=1");
    tollgate.signal("HUP");
    assert_eq!([told(), told()], ["RELOADING=1", "READY=1"]);
    tollgate.signal("TERM");
    assert_eq!(told(), "STOPPING=1");
    assert_eq!(tollgate.exit_code(), Some(0));
}
