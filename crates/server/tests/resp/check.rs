use crate::resp_client::{Reply, RespClient, bulk, error};
use crate::test_service::TestService;

const POLICY: &str = "version: 1
identity:
  user: { header: X-User-ID, trusted: true }
deny: { client_ip: [192.0.2.0/24] }
rules:
  - { name: per-ip, key: client_ip, limit: 60/min }
  - { name: per-user, key: user, limit: 2/min }
  - { name: login, when: { method: POST, path: /auth/login, host: shop.example }, limit: 1/min }
  - { name: pay, when: { path: /pay }, limit: 1/s, algorithm: leaky-bucket, queue: { size: 3 } }
  - { name: reports, when: { path: /reports }, concurrency: 2 }
  - { name: admin-only-inside, when: { path: /admin/*, network: { not: [10.0.0.0/8] } }, deny: true }
";

/// A reply that a rule decided.
fn decided_by(allowed: i64, rule: &str, numbers: [i64; 4]) -> Reply {
    Reply::List([Reply::Integer(allowed), bulk(rule)].into_iter().chain(numbers.map(Reply::Integer)).collect())
}

/// A reply of a rule that denies, which has no limit.
fn denied(rule: &str) -> Reply {
    use Reply::{Integer, List, Null};
    List(vec![Integer(0), bulk(rule), Null, Null, Integer(-1), Null])
}

/// A reply without a deciding rule.
fn without_rule(allowed: i64) -> Reply {
    use Reply::{Integer, List, Null};
    List(vec![Integer(allowed), Null, Null, Null, Integer(-1), Null])
}

#[test]
fn requests_are_decided_by_the_policy() {
    let service = TestService::with_policy(POLICY);
    let mut client = RespClient::open(service.resp);
    for (command, expected) in [
        ("TOLL.CHECK ip 203.0.113.9", decided_by(1, "per-ip", [60, 59, -1, 1000])),
        ("toll.check IP 203.0.113.9 cost 2", decided_by(1, "per-ip", [60, 57, -1, 3000])),
        ("TOLL.CHECK ip 203.0.113.9 COST 0", decided_by(1, "per-ip", [60, 57, -1, 3000])),
        ("TOLL.CHECK COST 58 ip 203.0.113.9", decided_by(0, "per-ip", [60, 57, 1000, 3000])),
        ("TOLL.CHECK ip 203.0.113.9 COST 61", decided_by(0, "per-ip", [60, 57, -1, 3000])),
        ("TOLL.CHECK ip 203.0.113.9 user 42", decided_by(1, "per-user", [2, 1, -1, 30_000])),
        ("TOLL.CHECK user 42", decided_by(1, "per-user", [2, 0, -1, 60_000])),
        ("TOLL.CHECK user 42", decided_by(0, "per-user", [2, 0, 30_000, 60_000])),
        ("TOLL.CHECK method POST path /auth/login host shop.example", decided_by(1, "login", [1, 0, -1, 60_000])),
        (
            "TOLL.CHECK Method POST PATH /auth/login?a=b Host shop.example:80",
            decided_by(0, "login", [1, 0, 60_000, 60_000]),
        ),
        ("TOLL.CHECK method GET path /auth/login host shop.example", without_rule(1)),
        ("TOLL.CHECK ip 192.0.2.1", without_rule(0)),
        ("TOLL.CHECK ip 203.0.113.11 path /admin/users", denied("admin-only-inside")),
        ("TOLL.CHECK path /admin/users", denied("admin-only-inside")),
        ("TOLL.CHECK ip 10.1.2.3 path /admin/users", decided_by(1, "per-ip", [60, 59, -1, 1000])),
        ("TOLL.CHECK colour blue", without_rule(1)),
        ("TOLL.CHECK client_ip 203.0.113.10:80", decided_by(1, "per-ip", [60, 59, -1, 1000])),
    ] {
        assert_eq!(client.call(command), expected, "{command}");
    }
}

#[test]
fn queued_requests_get_an_immediate_reply() {
    let service = TestService::with_policy(POLICY);
    let mut client = RespClient::open(service.resp);
    let allowed: Vec<bool> = (0..5)
        .map(|_| matches!(client.call("TOLL.CHECK path /pay"), Reply::List(parts) if parts[0] == Reply::Integer(1)))
        .collect();
    assert_eq!(allowed, [true, true, true, false, false]);
}

/// As many as `validate` reports for front ends that do not delay: the whole queue at once.
#[test]
fn queue_of_10_passes_10_of_15_at_once_over_resp() {
    let rule = "{ name: pay, limit: 5/s, algorithm: leaky-bucket, queue: { size: 10 } }";
    let service = TestService::with_policy(&format!("version: 1\nrules: [ {rule} ]\n"));
    let mut client = RespClient::open(service.resp);
    let replies: Vec<Reply> = (0..15).map(|_| client.call("TOLL.CHECK path /pay")).collect();
    let passed = |reply: &&Reply| matches!(reply, Reply::List(parts) if parts[0] == Reply::Integer(1));
    assert_eq!(replies.iter().filter(passed).count(), 10);
    assert_eq!(replies[0], decided_by(1, "pay", [10, 9, -1, 200]));
    assert_eq!(replies[14], decided_by(0, "pay", [10, 0, 200, 2_000]));
}

#[test]
fn check_of_a_concurrency_rule_takes_no_permit() {
    let service = TestService::with_policy(POLICY);
    let mut client = RespClient::open(service.resp);
    let Reply::List(parts) = client.call("TOLL.CHECK path /reports") else { panic!("no list") };
    assert_eq!(parts[..4], [Reply::Integer(1), bulk("reports"), Reply::Integer(2), Reply::Integer(2)]);
}

#[test]
fn resp_and_http_share_counters() {
    let service = TestService::with_policy(POLICY);
    let mut client = RespClient::open(service.resp);
    client.call("TOLL.CHECK ip 203.0.113.9");
    assert_eq!(service.check(r#"{"ip":"203.0.113.9"}"#)["remaining"], 58);
}

#[test]
fn identities_of_any_text_are_separate_keys() {
    let service = TestService::with_policy(POLICY);
    let mut client = RespClient::open(service.resp);
    let users = ["a", "a\r\nb", "\r\n*1\r\n$4\r\nPING\r\n", "a\nb", "a|b", "{a}", "ü", "a\0"];
    for remaining in [1, 0] {
        for user in users {
            let reply = client.call_with(&["TOLL.CHECK", "user", user]);
            assert_eq!(reply, decided_by(1, "per-user", [2, remaining, -1, 30_000 * (2 - remaining)]), "{user:?}");
        }
    }
}

#[test]
fn invalid_arguments_are_errors_and_charge_nothing() {
    let service = TestService::with_policy(POLICY);
    let mut client = RespClient::open(service.resp);
    const ARITY: &str = "ERR wrong number of arguments for 'toll.check' command";
    const IP: &str = "ERR ip must be an IPv4 or IPv6 address without port or brackets";
    const COST: &str = "ERR COST must be a whole number from 0 to 18446744073709551615";
    for (command, expected) in [
        ("TOLL.CHECK", ARITY),
        ("TOLL.CHECK ip", ARITY),
        ("TOLL.CHECK ip 203.0.113.9 user", ARITY),
        ("TOLL.CHECK ip 203.0.113.9 COST", ARITY),
        ("TOLL.CHECK ip nowhere user 1", IP),
        ("TOLL.CHECK ip 203.0.113.9:80 user 1", IP),
        ("TOLL.CHECK client_ip nowhere user 1", "ERR client_ip must be an IPv4 or IPv6 address"),
        ("TOLL.CHECK user 1 COST -1", COST),
        ("TOLL.CHECK user 1 COST 18446744073709551616", COST),
        ("TOLL.CHECK user 1 user 2", "ERR 'user' is given twice"),
        ("TOLL.CHECK user 1 ip ::1 IP ::1", "ERR 'IP' is given twice"),
        ("TOLL.CHECK user 1 COST 1 cost 2", "ERR 'cost' is given twice"),
    ] {
        assert_eq!(client.call(command), error(expected), "{command}");
    }
    let not_text: [&[u8]; 3] = [b"TOLL.CHECK", b"user", b"\xff"];
    assert_eq!(client.call_with(&not_text), error("ERR the value of 'user' is not UTF-8"));
    let not_text: [&[u8]; 3] = [b"TOLL.CHECK", b"\xff", b"1"];
    assert_eq!(client.call_with(&not_text), error("ERR the name of a field is not UTF-8"));
    assert_eq!(client.call("TOLL.CHECK user 1"), decided_by(1, "per-user", [2, 1, -1, 30_000]));
}

#[test]
fn replies_have_nulls_in_resp3_too() {
    let service = TestService::with_policy(POLICY);
    let mut client = RespClient::open(service.resp);
    assert!(matches!(client.call("HELLO 3"), Reply::Map(_)));
    assert_eq!(client.call("TOLL.CHECK colour blue"), without_rule(1));
}
