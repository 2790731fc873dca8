//! Leased tokens of a running service: its answers, the calls of operators, receipts, and the return at its end.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollgate_testbed::{RedisServer, TemporaryDirectory};

use crate::client::{Connection, request};
use crate::running::Running;

/// Far longer than anything takes that is waited for.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The limit of the rule `yearly`: 1000 a second, in a window so long that no test sees its end.
const YEARLY: u64 = 31_536_000_000;

/// More tokens than an instance ever holds of a limit of 1000 a second: it asks for those of 0.1 s at half of them.
const HELD_AT_MOST: u64 = 300;

fn policy(directory: &TemporaryDirectory, redis: &RedisServer) -> String {
    let file = directory.path().join("policy.yaml");
    // A long deadline and long leases: on a busy machine, no decision may be a fallback, and no lease may end.
    let text = format!(
        "version: 1
rules:
  - {{ name: burst, when: {{ path: /burst }}, key: client_ip, limit: 1000/s burst 1000 }}
  - {{ name: yearly, when: {{ path: /yearly }}, key: client_ip, limit: {YEARLY} per 365day, algorithm: fixed-window }}
store: {{ redis: {{ nodes: ['{}'], deadline: 5s, consistency: leased, lease: 60s }} }}
",
        redis.address()
    );
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

fn serve(file: &str) -> Running {
    Running::serve_with(&["--grpc", "off", "--resp", "off", file])
}

/// A client of one key.
struct Client {
    connection: Connection,
    path: &'static str,
}

impl Client {
    fn open(tollgate: &Running, path: &'static str) -> Client {
        Client { connection: Connection::open(tollgate.http), path }
    }

    fn check(&mut self, more: &Value) -> Value {
        let mut body = json!({ "ip": "203.0.113.9", "path": self.path });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let response = self.connection.request("POST", "/v1/check", &body.to_string());
        assert_eq!(response.status, 200, "{response:?}");
        response.json()
    }

    /// Sends checks until so many were decided by leases. Returns all answers.
    fn check_until_leased(&mut self, leased: usize) -> Vec<Value> {
        let begun = Instant::now();
        let mut answers = Vec::new();
        while answers.iter().filter(|answer| is_leased(answer)).count() < leased {
            assert!(begun.elapsed() < TIMEOUT, "{:?}", answers.last());
            answers.push(self.check(&json!({})));
        }
        answers
    }

    /// Sends checks until one with these members is decided by a lease. Returns their number, and its answer.
    fn check_leased(&mut self, more: &Value) -> (u64, Value) {
        let begun = Instant::now();
        for sent in 1.. {
            let answer = self.check(more);
            if is_leased(&answer) {
                return (sent, answer);
            }
            assert!(begun.elapsed() < TIMEOUT, "{answer}");
        }
        unreachable!()
    }
}

fn is_leased(answer: &Value) -> bool {
    assert_eq!(answer["allowed"], true, "{answer}");
    assert!(answer["source"] == "leased" || answer["source"] == "exact", "{answer}");
    answer["source"] == "leased"
}

fn admin(tollgate: &Running, method: &str, path: &str, body: &str) -> Value {
    let response = request(tollgate.admin, method, path, body);
    assert_eq!(response.status, 200, "{response:?}");
    response.json()
}

fn inspect(tollgate: &Running) -> Value {
    admin(tollgate, "GET", "/api/keys/yearly/203.0.113.9", "")["counters"][0].clone()
}

fn used(tollgate: &Running) -> u64 {
    inspect(tollgate)["used"].as_u64().unwrap()
}

fn metric(tollgate: &Running, name: &str) -> u64 {
    let metrics = request(tollgate.admin, "GET", "/metrics", "").body;
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse().unwrap()
}

/// Waits until an inspection returns that so much is used.
fn wait_until_used(tollgate: &Running, expected: u64) {
    let begun = Instant::now();
    while used(tollgate) != expected {
        assert!(begun.elapsed() < TIMEOUT, "{} and not {expected} used", used(tollgate));
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn answers_of_a_leased_key_state_their_source_and_what_remains() {
    let redis = RedisServer::start(&[]).unwrap();
    let directory = TemporaryDirectory::new("leased-answers").unwrap();
    let tollgate = serve(&policy(&directory, &redis));
    let mut sent = 0;
    for (path, limit) in [("/burst", 1_000), ("/yearly", YEARLY)] {
        let answers = Client::open(&tollgate, path).check_until_leased(200);
        sent += answers.len() as u64;
        let (mut spent, mut spent_by_leases) = (0, 0);
        for answer in &answers {
            spent += 1;
            spent_by_leases += u64::from(is_leased(answer));
            let remaining = answer["remaining"].as_u64().unwrap();
            assert_eq!(answer["limit"], limit);
            assert!(remaining <= limit && remaining + spent + HELD_AT_MOST >= limit, "after {spent}: {answer}");
            // The window gets nothing back meanwhile.
            assert!(path == "/burst" || remaining + spent_by_leases <= limit, "after {spent}: {answer}");
        }
    }
    assert_eq!(metric(&tollgate, "tollgate_store_leased_decisions_total"), 400);
    assert!(metric(&tollgate, "tollgate_leased_tokens_total") >= 400);
    assert_eq!(metric(&tollgate, "tollgate_stranded_tokens_total"), 0);
    let calls = ["tollgate_store_calls_total", "tollgate_store_lease_calls_total"].map(|name| metric(&tollgate, name));
    assert!(calls[1] > 0 && calls[0] + calls[1] < sent, "{calls:?} calls for {sent} checks");
    assert!(metric(&tollgate, "tollgate_leased_keys") <= 2);
    assert!(metric(&tollgate, "tollgate_leased_tokens_held") <= 2 * HELD_AT_MOST);
}

#[test]
fn leased_key_can_be_inspected_reset_and_overridden() {
    let redis = RedisServer::start(&[]).unwrap();
    let directory = TemporaryDirectory::new("leased-operators").unwrap();
    let file = policy(&directory, &redis);
    let (tollgate, other) = (serve(&file), serve(&file));
    let mut client = Client::open(&tollgate, "/yearly");
    let sent = client.check_until_leased(600).len() as u64;
    // Outstanding tokens count as used, on every instance.
    for instance in [&tollgate, &other] {
        let used = used(instance);
        assert!((sent..=sent + HELD_AT_MOST).contains(&used), "{used} used after {sent}");
    }
    // The unused tokens are returned soon.
    wait_until_used(&other, sent);

    // A reset keeps the outstanding tokens. Those that are spent count from their report on.
    let sent = client.check_until_leased(600).len() as u64;
    assert!(sent > HELD_AT_MOST);
    admin(&other, "DELETE", "/api/keys/yearly/203.0.113.9", "");
    assert!(used(&other) <= HELD_AT_MOST, "{}", used(&other));
    let sent = client.check_until_leased(100).len() as u64;
    let used_at_once = used(&other);
    assert!((sent..=sent + 2 * HELD_AT_MOST).contains(&used_at_once), "{used_at_once} used after {sent}");

    // An override ends the leases under the limit of before. The key is then leased under the limit of the override.
    let used_before = used(&other);
    admin(&tollgate, "PUT", "/api/keys/yearly/203.0.113.9", r#"{"limit":"40000000000 per 365day","for":"1h"}"#);
    let begun = Instant::now();
    let mut sent = 0;
    loop {
        let answer = client.check(&json!({}));
        sent += 1;
        assert_eq!(answer["limit"], 40_000_000_000_u64, "{answer}");
        if is_leased(&answer) {
            break;
        }
        assert!(begun.elapsed() < TIMEOUT, "{answer}");
    }
    let state = inspect(&tollgate);
    assert_eq!((&state["of"], &state["most"]), (&json!("hand"), &json!(40_000_000_000_u64)), "{state}");
    // Unspent tokens of the time before were returned, and nothing that was spent is lost.
    let used = state["used"].as_u64().unwrap();
    assert!((used_before + sent).abs_diff(used) <= 2 * HELD_AT_MOST, "{used_before} and {sent}: {state}");

    // An override that cannot be leased is exact.
    admin(&tollgate, "PUT", "/api/keys/yearly/203.0.113.9", r#"{"limit":"10000 per 365day","for":"1h"}"#);
    let answer = client.check(&json!({}));
    assert_eq!((&answer["limit"], &answer["source"]), (&json!(10_000), &json!("exact")), "{answer}");
    admin(&tollgate, "DELETE", "/api/overrides/yearly/203.0.113.9", "");
    assert_eq!(client.check_leased(&json!({})).1["limit"], YEARLY);
}

#[test]
fn receipts_are_refunded_and_settled_and_a_stop_returns_what_is_unspent() {
    let redis = RedisServer::start(&[]).unwrap();
    let directory = TemporaryDirectory::new("leased-receipts").unwrap();
    let file = policy(&directory, &redis);
    let mut tollgate = serve(&file);
    let mut client = Client::open(&tollgate, "/yearly");
    let mut spent = client.check_until_leased(50).len() as u64;
    let use_receipt = |answer: &Value, path: &str, cost: Option<u64>| {
        let body = json!({ "receipt": answer["receipt"], "cost": cost });
        let body = if cost.is_none() { json!({ "receipt": answer["receipt"] }) } else { body };
        let response = request(tollgate.http, "POST", path, &body.to_string());
        assert_eq!(response.status, 200, "{response:?}");
    };
    let with_receipt = json!({ "cost": 10, "receipt": true });
    // At once, where most charges are not reported to the server yet, and later, when all of them are.
    for is_late in [false, true] {
        let mut answers = Vec::new();
        for _ in 0..4 {
            let (sent, answer) = client.check_leased(&with_receipt);
            spent += 10 * sent;
            answers.push(answer);
        }
        if is_late {
            wait_until_used(&tollgate, spent);
        }
        use_receipt(&answers[0], "/v1/refund", None);
        use_receipt(&answers[1], "/v1/settle", Some(3));
        use_receipt(&answers[2], "/v1/settle", Some(25));
        // The last receipt is not used.
        spent = spent - 10 - 7 + 15;
        if is_late {
            wait_until_used(&tollgate, spent);
        }
    }
    // SIGTERM while checks are sent, so that tokens are held.
    let mut answered = client.check_until_leased(20).len() as u64;
    tollgate.signal("TERM");
    loop {
        let response = client.connection.request("POST", "/v1/check", r#"{"ip":"203.0.113.9","path":"/yearly"}"#);
        assert_eq!((response.status, &response.json()["allowed"]), (200, &json!(true)), "{response:?}");
        answered += 1;
        if response.field("connection") == Some("close") {
            break;
        }
    }
    assert_eq!(tollgate.exit_code(), Some(0));
    let other = serve(&file);
    // The store must be reached first.
    assert_eq!(Client::open(&other, "/yearly").check(&json!({ "cost": 0 }))["source"], "exact");
    assert_eq!(used(&other), spent + answered);
}
