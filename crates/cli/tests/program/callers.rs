//! Callers that supply their own limits (CL.THROTTLE), with any number of keys and limits. They evict no counters of
//! rules and use up none of the policy's quotas.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::client::{Connection, request};
use crate::reload::Directory;
use crate::running::Running;

const YEAR_S: &str = "31536000";
/// With a store of 50,000 entries, callers' keys take 25,000 entries of 102 bytes. The rest is for connections and
/// requests.
const MAX_GROWTH_KB: u64 = 32 << 10;

struct Caller(BufReader<TcpStream>);

impl Caller {
    fn open(server: SocketAddr) -> Caller {
        let stream = TcpStream::connect(server).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Caller(BufReader::new(stream))
    }

    /// Charges 1 for each key and limit, pipelined. Returns the number of refusals.
    fn throttle(&mut self, calls: impl Iterator<Item = (String, [String; 3])>) -> usize {
        let calls: Vec<_> = calls.collect();
        let mut refused = 0;
        for chunk in calls.chunks(500) {
            let lines = chunk
                .iter()
                .map(|(key, [burst, count, period])| format!("CL.THROTTLE {key} {burst} {count} {period}\r\n"));
            self.0.get_mut().write_all(lines.collect::<String>().as_bytes()).unwrap();
            refused += chunk.iter().filter(|_| self.is_refused()).count();
        }
        refused
    }

    fn is_refused(&mut self) -> bool {
        let mut answer = String::new();
        (0..6).for_each(|_| _ = self.0.read_line(&mut answer).unwrap());
        assert!(answer.starts_with("*5\r\n:"), "{answer}");
        answer.starts_with("*5\r\n:1\r\n")
    }
}

/// The 99th percentile of the duration of another client's checks.
fn p99_of_others(http: SocketAddr, is_over: &AtomicBool) -> Duration {
    let mut other = Connection::open(http);
    let mut taken = Vec::new();
    while !is_over.load(Relaxed) {
        let begun = Instant::now();
        assert_eq!(other.request("POST", "/v1/check", r#"{"ip":"198.51.100.7"}"#).status, 200);
        taken.push(begun.elapsed());
    }
    taken.sort_unstable();
    taken[taken.len() * 99 / 100]
}

fn limit(burst: usize, count: usize, period: &str) -> [String; 3] {
    [burst.to_string(), count.to_string(), period.to_owned()]
}

fn policy(limit: &str) -> String {
    format!(
        "version: 1\nstore: {{ memory: {{ entries: 50000 }} }}\nrules:\n  \
         - {{ name: per-ip, key: client_ip, limit: {limit} }}\n"
    )
}

fn is_allowed(tollgate: &Running) -> bool {
    request(tollgate.http, "POST", "/v1/check", r#"{"ip":"203.0.113.9"}"#).json()["allowed"] == true
}

#[test]
#[allow(clippy::print_stdout, reason = "prints the measurement")]
fn keys_of_callers_evict_no_key_of_a_rule_and_take_bounded_memory() {
    let directory = Directory::new("caller-keys");
    let file = directory.write("policy.yaml", &policy("1/day"));
    let tollgate = Running::serve_with(&["--grpc", "off", "--resp", ":0", &file]);
    assert!(is_allowed(&tollgate) && !is_allowed(&tollgate));
    let before_kb = tollgate.resident_kb();
    let is_over = AtomicBool::new(false);
    let slow = std::thread::scope(|scope| {
        let others = scope.spawn(|| p99_of_others(tollgate.http, &is_over));
        let mut caller = Caller::open(tollgate.resp.unwrap());
        // Four times as many as the store holds.
        let keys = (0..200_000).map(|key| (format!("k{key}"), limit(9, 1, YEAR_S)));
        assert_eq!(caller.throttle(keys), 0);
        is_over.store(true, Relaxed);
        others.join().unwrap()
    });
    assert!(!is_allowed(&tollgate), "a refused client stays refused");
    let growth_kb = tollgate.resident_kb().saturating_sub(before_kb);
    println!("{growth_kb} kB more than before, p99 of other checks {slow:?}");
    assert!(growth_kb < MAX_GROWTH_KB, "{growth_kb} kB more than before");
}

#[test]
fn limits_of_callers_take_no_quota_of_the_policy_and_evict_no_other_callers_key() {
    let directory = Directory::new("caller-limits");
    let file = directory.write("policy.yaml", &policy("1/day").replace("50000", "1000000"));
    let tollgate = Running::serve_with(&["--grpc", "off", "--resp", ":0", &file]);
    let mut caller = Caller::open(tollgate.resp.unwrap());
    assert_eq!(caller.throttle((1..=5_000).map(|count| ("one".to_owned(), limit(9_999, count, "60")))), 0);
    let victim = || std::iter::once(("victim".to_owned(), limit(0, 1, "86400")));
    assert_eq!((caller.throttle(victim()), caller.throttle(victim())), (0, 1));
    assert_eq!(caller.throttle((0..200_000).map(|key| (format!("k{key}"), limit(9, 1, YEAR_S)))), 0);
    assert_eq!(caller.throttle(victim()), 1, "another caller's key is still limited");
    let metrics = request(tollgate.admin, "GET", "/metrics", "").body;
    assert!(metrics.contains("\ntollgate_bucket_quotas 1\n"), "{metrics}");
}

#[test]
fn thousands_of_overrides_leave_quotas_for_another_policy() {
    let directory = Directory::new("override-quotas");
    let file = directory.write("policy.yaml", &policy("1/day"));
    let tollgate = Running::serve_with(&["--grpc", "off", "--resp", "off", &file]);
    let mut operator = Connection::open(tollgate.admin);
    for count in 2..4_400 {
        let set = format!(r#"{{"limit":"{count}/day","for":"1h"}}"#);
        let response = operator.request("PUT", "/api/keys/per-ip/203.0.113.9", &set);
        assert_eq!(response.status, 200, "override {count}: {}", response.body);
    }
    directory.write("policy.yaml", &policy("5/day"));
    let response = operator.request("POST", "/api/reload", "");
    assert_eq!(response.status, 200, "{}", response.body);
    let metrics = request(tollgate.admin, "GET", "/metrics", "").body;
    assert!(metrics.contains("\ntollgate_bucket_quotas_used 2\n"), "{metrics}");
}
