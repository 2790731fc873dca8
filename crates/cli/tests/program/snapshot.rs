//! Counters that survive a restart.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::client::{Connection, request};
use crate::reload::Directory;
use crate::running::Running;

/// Longer than any snapshot takes.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(60);

/// A policy of one rule with a snapshot in the file `counters` beside it.
pub(crate) fn with_snapshot(rule: &str, settings: &str) -> String {
    format!(
        "version: 1\nrules:\n  - {{ name: daily, key: client_ip, {rule} }}\n\
         store: {{ memory: {{ snapshot: counters, {settings} }} }}\n"
    )
}

pub(crate) fn serve(file: &str) -> Running {
    Running::serve_with(&["--grpc", "off", "--resp", "off", file])
}

/// The response to a check.
pub(crate) fn check(tollgate: &Running) -> serde_json::Value {
    request(tollgate.http, "POST", "/v1/check", r#"{"ip":"203.0.113.9"}"#).json()
}

pub(crate) fn metric(tollgate: &Running, name: &str) -> u64 {
    let metrics = request(tollgate.admin, "GET", "/metrics", "").body;
    metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap()
}

pub(crate) fn counters(directory: &Directory) -> PathBuf {
    directory.0.join("counters")
}

/// The identity of a file: each snapshot is a new file.
fn file_identity(path: &Path) -> Option<(u64, i64, i64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.ino(), metadata.mtime(), metadata.mtime_nsec()))
}

/// Waits for a snapshot that was started after the call.
pub(crate) fn await_snapshot(path: &Path) {
    // The first may have been started before.
    for _ in 0..2 {
        let (before, begun) = (file_identity(path), Instant::now());
        while file_identity(path) == before || file_identity(path).is_none() {
            assert!(begun.elapsed() < SNAPSHOT_TIMEOUT, "no snapshot is written");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn restart_does_not_reset_a_daily_limit() {
    for (at, algorithm) in
        ["token-bucket", "leaky-bucket", "fixed-window", "sliding-window-counter", "sliding-window-log"]
            .into_iter()
            .enumerate()
    {
        let directory = Directory::new(&format!("restart-{at}"));
        let file = directory
            .write("policy.yaml", &with_snapshot(&format!("limit: 5/day, algorithm: {algorithm}"), "every: 1h"));
        let path = counters(&directory);
        let shown = path.display();
        let mut tollgate = serve(&file);
        let warning = tollgate.line();
        assert!(warning.starts_with(&format!("tollgate: warning: {file}:4:")), "{warning}");
        assert_eq!(tollgate.line(), format!("tollgate: counters are saved to {shown}, which is new"));
        for remaining in [4, 3, 2] {
            assert_eq!(check(&tollgate)["remaining"], remaining, "{algorithm}");
        }
        tollgate.signal("TERM");
        assert_eq!(tollgate.line(), "tollgate: stopping: answering requests in flight");
        let bytes = std::fs::metadata(&path).map(|metadata| metadata.len());
        let said = tollgate.line();
        assert!(said.starts_with(&format!("tollgate: counters were saved to {shown}: 1 key, ")), "{said} {bytes:?}");
        assert_eq!(tollgate.line(), "tollgate: stopped");
        assert_eq!(tollgate.exit_code(), Some(0));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);

        let mut tollgate = serve(&file);
        tollgate.line();
        let said = tollgate.line();
        assert!(said.starts_with(&format!("tollgate: counters were restored from {shown}: 1 key, written ")), "{said}");
        for remaining in [1, 0] {
            assert_eq!(check(&tollgate)["remaining"], remaining, "{algorithm}");
        }
        assert_eq!(check(&tollgate)["allowed"], false, "{algorithm}");
        // The same after Ctrl-C, and with a changed limit.
        tollgate.signal("INT");
        assert_eq!(tollgate.exit_code(), Some(0));
        directory.write("policy.yaml", &with_snapshot(&format!("limit: 9/day, algorithm: {algorithm}"), "every: 1h"));
        let tollgate = serve(&file);
        assert_eq!(check(&tollgate)["remaining"], 3, "{algorithm}");
    }
}

#[test]
fn limits_of_callers_survive_a_restart() {
    use std::io::{Read, Write};
    let directory = Directory::new("restart-resp");
    let file = directory.write("policy.yaml", &with_snapshot("limit: 5/day", "every: 1h"));
    let throttle = |tollgate: &Running| {
        let mut connection = std::net::TcpStream::connect(tollgate.resp.unwrap()).unwrap();
        connection.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        connection.write_all(b"CL.THROTTLE k 15 30 86400\r\n").unwrap();
        let mut answer = [0; 16];
        connection.read_exact(&mut answer).unwrap();
        String::from_utf8(answer.to_vec()).unwrap()
    };
    let mut tollgate = Running::serve_with(&["--grpc", "off", "--resp", ":0", &file]);
    assert_eq!(throttle(&tollgate), "*5\r\n:0\r\n:16\r\n:15");
    tollgate.signal("TERM");
    assert_eq!(tollgate.exit_code(), Some(0));
    let tollgate = Running::serve_with(&["--grpc", "off", "--resp", ":0", &file]);
    assert_eq!(throttle(&tollgate), "*5\r\n:0\r\n:16\r\n:14");
}

#[test]
fn killed_process_loses_only_counts_after_the_last_snapshot() {
    const LIMIT: u64 = 1_000_000;
    let directory = Directory::new("killed");
    let file = directory.write("policy.yaml", &with_snapshot(&format!("limit: {LIMIT}/day"), "every: 100ms"));
    let path = counters(&directory);
    let mut tollgate = serve(&file);
    let (passed, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut written = 0;
    std::thread::scope(|scope| {
        let http = tollgate.http;
        let (passed, is_over) = (&passed, &is_over);
        scope.spawn(move || {
            // The last request fails.
            let mut connection = Connection::open(http);
            let body = r#"{"ip":"203.0.113.9"}"#;
            while !is_over.load(Ordering::Relaxed) {
                let asked = std::panic::AssertUnwindSafe(|| connection.request("POST", "/v1/check", body).status);
                if std::panic::catch_unwind(asked).is_ok_and(|status| status == 200) {
                    passed.fetch_add(1, Ordering::Relaxed);
                } else {
                    break;
                }
            }
        });
        let begun = Instant::now();
        while passed.load(Ordering::Relaxed) < 100 {
            assert!(begun.elapsed() < SNAPSHOT_TIMEOUT, "no request is answered");
            std::thread::sleep(Duration::from_millis(1));
        }
        // While requests are in flight.
        written = passed.load(Ordering::Relaxed);
        await_snapshot(&path);
        tollgate.signal("KILL");
        assert_eq!(tollgate.exit_code(), None);
        is_over.store(true, Ordering::Relaxed);
    });
    let tollgate = serve(&file);
    let used = LIMIT - 1 - check(&tollgate)["remaining"].as_u64().unwrap();
    // One more request may have been charged without a response. (A token refills in 86 ms.)
    let passed = passed.load(Ordering::Relaxed);
    assert!(used <= passed + 1, "{used} of {passed}");
    let refilled = 2 + u64::try_from(SNAPSHOT_TIMEOUT.as_millis()).unwrap() / 86;
    assert!(used + refilled >= written, "{used} of {written} that were written");
}

#[test]
fn reload_can_change_the_snapshot_interval_but_not_the_file() {
    let directory = Directory::new("snapshot-reload");
    let file = directory.write("policy.yaml", &with_snapshot("limit: 5/day", "every: 10min"));
    let mut tollgate = serve(&file);
    tollgate.line();
    assert_eq!(check(&tollgate)["remaining"], 4);
    let elsewhere = with_snapshot("limit: 7/day", "every: 10min").replace("counters", "elsewhere");
    directory.write("policy.yaml", &elsewhere);
    tollgate.signal("HUP");
    let said = format!(
        "tollgate: error: {file} not reloaded, the previous policy stays active: \
         it configures another snapshot file: restart to use it"
    );
    assert_eq!(tollgate.line(), said);
    directory.write("policy.yaml", &with_snapshot("limit: 9/day", "every: 100ms"));
    tollgate.signal("HUP");
    assert_eq!(
        tollgate.line(),
        format!(
            "tollgate: {file} reloaded: 1 rule changed: `daily` (9/day burst 9 token-bucket, was 5/day burst 5 token-bucket); also changed: store"
        )
    );
    assert_eq!(check(&tollgate)["remaining"], 7);
    await_snapshot(&counters(&directory));
    assert!(metric(&tollgate, "tollgate_snapshot_last_success_timestamp_seconds ") > 1_700_000_000);
    assert!(metric(&tollgate, "tollgate_snapshot_bytes ") > 0);
    assert_eq!(metric(&tollgate, "tollgate_snapshot_failures_total "), 0);
}
